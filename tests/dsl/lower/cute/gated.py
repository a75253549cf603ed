"""Guarded programs whose products are behind gates: test_gated.py reads their text, tests/engine/build compiles two of
them, tests/gpu runs them all. Each product is large enough to be left out where the guard's flag is set, unless it sets
it itself."""

from __future__ import annotations

PRODUCTS = {  # parameters, result, the product's clauses, operands
    "clusters of two rows": (
        "x: f32[4096, 1024], w: f32[4096, 1024], b: f32[4096]", "f32[4096, 4096]", "xh, wh.T",
        "tile 128x256x64  cluster 2x1x1  schedule cooperative  epilogue gelu(acc + b[n])",
    ),
    "clusters of two columns, pingpong": (
        "x: f32[4096, 1024], w: f32[4096, 1024], r: f32[4096, 4096]", "f32[4096, 4096]", "xh, wh.T",
        "tile 64x192x64  cluster 1x2x1  schedule pingpong  epilogue relu(acc) + r[m, n]",
    ),
    "ragged": (
        "x: f32[4100, 1032], w: f32[4104, 1032]", "f32[4100, 4104]", "xh, wh.T", "tile 256x128x64  cluster 2x1x1",
    ),
    "across k": ("x: f32[1024, 4096], w: f32[1024, 4096]", "f32[4096, 4096]", "xh.T, wh", ""),
    "batches": ("x: f32[8, 1024, 1024], w: f32[8, 2048, 1024]", "f32[8, 1024, 2048]", "xh, wh.T", ""),
    "rows reduced": ("x: f32[4096, 1024], w: f32[4096, 1024]", "f32[4096]", "xh, wh.T", "epilogue row_sum(gelu(acc))"),
    "split along k": (
        "x: f32[256, 65536], w: f32[1024, 65536]", "f32[256, 1024]", "xh, wh.T",
        "tile 128x128x64  cluster 1x1x1  schedule cooperative  scheduler split_k(4)",
    ),
}  # fmt: skip
CONVOLUTIONS = {  # x, w, result, operation and its clauses
    "padded": ("40, 128, 56, 56", "128, 128, 3, 3", "40, 128, 56, 56", "conv2d", "padding 1x1"),
    "stride": ("64, 128, 57, 113", "256, 128, 3, 3", "64, 256, 28, 56", "conv2d", "stride 2x2"),
    "in groups": ("64, 256, 58, 58", "512, 64, 3, 3", "64, 512, 56, 56", "conv2d", "groups 4"),
    "three dimensions": ("8, 64, 18, 66, 66", "128, 64, 3, 3, 3", "8, 128, 16, 64, 64", "conv3d", ""),
    "transposed": ("32, 256, 32, 32", "256, 128, 4, 4", "32, 128, 66, 66", "conv_transpose2d", "stride 2x2"),
}
CHAIN = """program p(x: f32[4096, 1024], w: f32[4096, 1024], v: f32[1024, 4096]) -> f32[4096, 1024] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  vh = transform(v) { to f16 }
  h = gemm(xh, wh.T) { store f16  epilogue relu(acc) }
  n = gemm(h, vh.T) { store f32 }
  y = normalize(n) { op layernorm  over n }
  return y
}"""
NORMED = """program p(x: f32[4096, 1024], w: f32[4096, 1024]) -> f32[4096, 4096] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  n = gemm(xh, wh.T) { store f32 }
  y = normalize(n) { op layernorm  over n  epilogue relu(acc) }
  return y
}"""
POOLED = """program p(x: f32[40, 128, 56, 56], w: f32[128, 128, 3, 3]) -> f32[40, 128, 28, 28] {
  guard f32
  xt = transform(x) { layout nhwc  to f16 }
  wt = transform(w) { layout nhwc  to f16 }
  h = conv2d(xt, wt) { padding 1x1  store f32  epilogue relu(acc) }
  y = pool(h) { op max  window 2x2  stride 2x2  store nchw }
  return y
}"""


PADDED = """program p(a: f32[4101, 2049], b: f32[2049, 4101]) -> f32[4101, 4101] {
  guard f32
  ap = transform(a) { pad 4101x2056  to f16 }
  bp = transform(b) { pad 2056x4104  to f16 }
  d = gemm(ap, bp) { store f32 }
  y = transform(d) { crop 4101x4101 }
  return y
}"""


def product(parameters: str, result: str, operands: str, clauses: str) -> str:
    return f"""program p({parameters}) -> {result} {{
  guard f32
  xh = transform(x) {{ to f16 }}
  wh = transform(w) {{ to f16 }}
  y = gemm({operands}) {{ store f32  {clauses} }}
  return y
}}"""


def texts() -> dict[str, str]:
    """The programs by name."""
    out = {name: product(*parts) for name, parts in PRODUCTS.items()}
    for name, (x, w, y, op, clauses) in CONVOLUTIONS.items():
        out[f"conv {name}"] = f"""program p(x: f32[{x}], w: f32[{w}], b: f32[{y.split(", ")[1]}]) -> f32[{y}] {{
  guard f32
  xt = transform(x) {{ layout nhwc  to f16 }}
  wt = transform(w) {{ layout nhwc  to f16 }}
  y = {op}(xt, wt) {{ {clauses}  store f32 nchw  epilogue relu(acc + b[c]) }}
  return y
}}"""
    graph = out["clusters of two rows"].replace("  guard f32\n", "  guard f32\n  launch graph\n")
    out |= {"chain": CHAIN, "norm left out, too": NORMED, "conv and pool": POOLED, "padded": PADDED}
    return out | {"as a graph": graph}
