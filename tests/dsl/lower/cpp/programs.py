"""Programs by text, checked and resolved, for the tests of the cpp back end."""

from __future__ import annotations

from dsl.check.program import check
from dsl.ir import Program
from dsl.resolve import resolve


def program(text: str) -> Program:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return resolve(checked.program, 132)


def gemm(
    epilogue: str = "acc", params: str = "", clauses: str = "", dtype: str = "f32", compute: str = "tf32"
) -> Program:
    """y = epilogue(x @ w.T) for x[256, 512] and w[256, 512], so that m == n; `params` names what the epilogue reads."""
    more = f", {params}" if params else ""
    return program(
        f"program p(x: {dtype}[256, 512], w: {dtype}[256, 512]{more}) -> {dtype}[256, 256] {{\n"
        f"  arch sm_90a\n  y = gemm(x, w.T) {{ compute {compute} {clauses} epilogue {epilogue} }}\n  return y\n}}"
    )


LINEAR_LEAKY = """
program gemm_scale_leaky(x: f32[1024, 8192], w: f32[8192, 8192], b: f32[8192]) -> f32[1024, 8192] {
  arch sm_90a
  y = gemm(x, w.T) {
    compute tf32 tile 128x256x32 cluster 2x1x1 schedule cooperative scheduler persistent stages 4 swizzle 1
    epilogue leaky_relu((acc + b[n]) * 2.0, 0.1)
  }
  return y
}"""

CAST_ATTENTION = """
program cast_bmm(q: f32[8, 128, 64], k: f32[8, 256, 64], mask: f32[128, 256], s: f32[]) -> f32[8, 128, 256] {
  arch sm_90a
  qh = transform(q) { to f16 }
  kh = transform(k) { to f16 prepack }
  y = gemm(qh, kh.T) {
    compute f16 tile 64x128x64 cluster 1x1x1 schedule pingpong scheduler persistent stages 4 swizzle 2
    store f32 epilogue acc * s + mask[m, n]
  }
  return y
}"""

SPLIT_K = """
program split(x: bf16[512, 128], w: bf16[512, 256], g: f32[128], r: bf16[128, 256], t: f32[128, 256]) ->
    bf16[128, 256] {
  arch sm_90a
  y = gemm(x.T, w) {
    compute bf16 tile 128x128x64 cluster 1x2x1 schedule cooperative scheduler split_k(4) stages 3 swizzle 1
    epilogue (r[m, n] - acc) / g[m] + t[m, n] * silu(acc)
  }
  return y
}"""

CONV = """
program conv_relu(x: f32[16, 64, 256, 256], w: f32[128, 64, 3, 3], b: f32[128]) -> f32[16, 128, 254, 254] {
  arch sm_90a
  xt = transform(x) { layout nhwc  to f16 }
  wt = transform(w) { layout nhwc  to f16  prepack }
  y = conv2d(xt, wt) {
    compute f16 tile 128x128x64 cluster 1x1x1 schedule pingpong scheduler persistent stages 3 swizzle 1
    store f32 nchw epilogue relu(acc + b[c])
  }
  return y
}"""

ROWMAJOR = """
program rowmajor(x: f32[4, 3, 32, 41], w: f32[40, 3, 3, 5], b: f32[40], r: f32[4, 40, 30, 37]) -> f32[4, 40, 30, 37] {
  arch sm_90a
  y = conv2d(x, w) { compute f16 tile 48x128x48 stages 2 epilogue relu(acc + b[c]) + r[b, c, h, w] }
  return y
}"""

GUARDED = """
program guarded(x: f32[4, 3, 32, 41], w: f32[40, 3, 3, 5], b: f32[40]) -> f32[4, 40, 15, 18] {
  arch sm_90a
  guard f32
  y = conv2d(x, w) { compute f16 tile 48x128x48 stages 2 epilogue relu(acc + b[c]) }
  z = pool(y) { op max window 2x2 }
  return z
}"""

AMPERE = """
program ampere(x: f16[4, 130, 512], w: f16[512, 192], s: f32[4, 192], r: f32[4, 130, 192]) ->
    (f16[4, 130, 192], f16[4, 130, 192]) {
  arch sm_80
  y = gemm(x, w) {
    compute f16 tile 128x64x64 scheduler split_k(4) stages 4 swizzle 2
    let t = acc + s[l, n]
    also d = t * 0.5
    store f16 epilogue silu(t) + r[l, m, n]
  }
  return y, d
}"""

ADA = """
program ada(x: e4m3[512, 256], w: e4m3[384, 256]) -> f16[512, 384] {
  arch sm_89
  y = gemm(x, w.T) { store f16 }
  return y
}"""

BLACKWELL = """
program blackwell(x: f16[1024, 512], w: f16[512, 768], b: f32[768], r: f32[1024, 768], t: f16[1024, 768]) ->
    bf16[1024, 768] {
  arch sm_100a
  y = gemm(x, w) {
    compute f16 tile 256x128x64 cluster 2x1x1 scheduler persistent stages 3 swizzle 1
    store bf16 epilogue gelu(acc + b[n]) * r[m, n] + t[m, n]
  }
  return y
}"""

SIMT = """
program simt(x: f32[255, 300], w: f32[300, 511]) -> f32[255, 511] {
  y = gemm(x, w) { compute f32 }
  return y
}"""
