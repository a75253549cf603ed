"""Programs in tf32 for the tensor cores by `cute`: test_builds.py compiles them, tests/gpu runs them."""

from __future__ import annotations

PRODUCTS = {
    "two groups split n": (
        "x: f32[1000, 512], w: f32[776, 512], b: f32[776]", "(f32[1000, 776], f32[1000])",
        "y = gemm(x, w.T) { backend cute  tile 192x192x32  also q = row_max(acc)  epilogue gelu(acc + b[n]) }", "y, q",
    ),
    "pingpong": (
        "x: f32[1000, 136], w: f32[520, 136], r: f32[1000, 520]", "f32[1000, 520]",
        "y = gemm(x, w.T) { backend cute  tile 64x224x16  schedule pingpong  epilogue silu(acc) + r[m, n] }", "y",
    ),
    "split along k": (
        "x: f32[128, 8192], w: f32[256, 8192]", "f32[128, 256]",
        "y = gemm(x, w.T) { backend cute  tile 128x64x32  schedule cooperative  scheduler split_k(4) }", "y",
    ),
    "batches": (
        "x: f32[6, 200, 64], w: f32[6, 136, 64]", "f32[6, 200, 136]",
        "y = gemm(x, w.T) { backend cute  store f32 }", "y",
    ),
    "groups": (
        "x: f32[1000, 512], w: f32[8, 256, 512], sizes: i32[8]", "f32[1000, 256]",
        "y = grouped_gemm(x, w.T, sizes) { backend cute  epilogue silu(acc) }", "y",
    ),
}  # fmt: skip
# x, w, result, operation and its clauses.
CONVOLUTIONS = {
    "padded": ("8, 64, 28, 28", "128, 64, 3, 3", "8, 128, 28, 28", "conv2d", "padding 1x1"),
    "stride, dilation": ("4, 36, 40, 41", "72, 36, 3, 5", "4, 72, 18, 19", "conv2d", "stride 2x2 dilation 2x1"),
    "in groups": ("4, 128, 20, 20", "64, 32, 3, 3", "4, 64, 18, 18", "conv2d", "groups 4"),
    "four channels": ("4, 4, 64, 64", "32, 4, 7, 7", "4, 32, 29, 29", "conv2d", "stride 2x2"),
    "three dimensions": ("2, 32, 10, 12, 14", "48, 32, 3, 3, 3", "2, 48, 10, 12, 14", "conv3d", "padding 1x1x1"),
    "pixels alone": ("16, 256, 14, 14", "512, 256, 1, 1", "16, 512, 14, 14", "conv2d", ""),
}
FOLDED = """program p(x: f32[4, 32, 18, 18], w: f32[64, 32, 3, 3]) -> f32[4, 16, 16] {
  xl = transform(x) { layout nhwc }
  wl = transform(w) { layout nhwc }
  h = conv2d(xl, wl) { backend cute  compute tf32 }
  y = reduce(h) { op max over c }
  return y
}"""


def texts() -> dict[str, str]:
    """The programs by name."""
    out = {}
    for name, (params, results, stage, returned) in PRODUCTS.items():
        out[name] = f"program p({params}) -> {results} {{\n  {stage}\n  return {returned}\n}}"
    for name, (x, w, y, op, clauses) in CONVOLUTIONS.items():
        out[f"conv {name}"] = f"""program p(x: f32[{x}], w: f32[{w}], b: f32[{w.split(",")[0]}]) -> f32[{y}] {{
  xl = transform(x) {{ layout nhwc }}
  wl = transform(w) {{ layout nhwc }}
  y = {op}(xl, wl) {{ backend cute  compute tf32  {clauses}  store f32 nchw  epilogue relu(acc + b[c]) }}
  return y
}}"""
    return out | {"conv and what folds its channels": FOLDED}
