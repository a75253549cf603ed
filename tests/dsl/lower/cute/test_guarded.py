"""`guard f32`: watching casts and rescue kernels, every thread emulated; products of tensor cores are left out.

The module's own f16 product writes a mark, so that what is read afterwards says whether the rescue ran.
"""

import re

import pytest
import torch

from dsl.check.program import check
from dsl.guard import rescue
from dsl.lower.cute import lower
from dsl.resolve import resolve
from engine.evaluate.correctness import oracle

from . import emulator

MARK = -77.0


def program(text: str):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return resolve(checked.program)


def product(a: str, b: str, sides: str, result: str, clauses: str = "", more: str = "") -> str:
    x, w = sides.split(", ")
    return (
        f"program p(x: f32[{a}], w: f32[{b}]{more}) -> f32[{result}] {{\n  guard f32\n"
        "  xh = transform(x) { to f16 }\n"
        f"  wh = transform(w) {{ to f16 }}\n  y = gemm({x}, {w}) {{ {clauses}  store f32 }}\n  return y\n}}"
    )


CONV = """program p(x: f32[{n}, 16, {size}], w: f32[{w}], b: f32[{k}]) -> f32[{n}, {k}, {out}] {{
  guard f32
  xt = transform(x) {{ layout nhwc  to f16 }}
  wt = transform(w) {{ layout nhwc  to f16 }}
  y = {word}(xt, wt) {{ {clauses}  epilogue relu(acc + b[c])  store f32 nchw }}
  return y
}}"""
NORM = CONV.format(n=2, size="10, 12", w="32, 16, 3, 3", k=32, out="8, 10", word="conv2d", clauses="")
NORM = NORM.replace("store f32 nchw }", "store f32 }\n  z = normalize(y) { op groupnorm  groups 4  store f32 nchw }")
NORM = NORM.replace("return y", "return z")
CASES = {
    "along_k": product("72, 40", "136, 40", "xh, wh.T", "72, 136"),
    "across_k": product("40, 72", "40, 136", "xh.T, wh", "72, 136"),
    "batched": product("3, 72, 40", "3, 40, 16", "xh, wh", "3, 72, 16"),
    "shared": product("2, 3, 24, 40", "40, 16", "xh, wh", "2, 3, 24, 16"),
    "bias": product("72, 40", "16, 40", "xh, wh.T", "72, 16", "epilogue relu(acc * 2.0 + b[n]) - r[m, n]",
                    ", b: f32[16], r: f32[72, 16]"),
    "triangle": product("72, 40", "72, 40", "xh, wh.T", "72, 72", "epilogue tril(acc)"),
    "row_sum": product("72, 40", "136, 40", "xh, wh.T", "72", "epilogue row_sum(gelu(acc))"),
    "col_sum": product("3, 72, 40", "136, 40", "xh, wh.T", "3, 136", "epilogue col_sum(acc)"),
    "conv": CONV.format(n=2, size="10, 12", w="32, 16, 3, 3", k=32, out="8, 10", word="conv2d", clauses=""),
    "strided": CONV.format(n=2, size="21", w="8, 16, 3", k=8, out="10", word="conv1d", clauses="stride 2"),
    "transposed": CONV.format(n=1, size="5, 6", w="16, 8, 3, 3", k=8, out="11, 13", word="conv_transpose2d",
                              clauses="stride 2x2"),
    "then_a_norm": NORM,
}  # fmt: skip


def run(text: str, change=lambda tensors: None):
    """(what the module wrote, what f32 gives)"""
    p = program(text)
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(t.type.shape, generator=generator) for t in p.params]
    change(inputs)
    outputs = [torch.full(t.shape, MARK) for t in p.result_types]
    source = lower(p).text
    # A product on tensor cores is not emulated.
    tensor_cores = r" = (reducing\(GemmStage\)|GemmStage|ConvStage)\("
    source = re.sub(tensor_cores, " = (lambda *a, **k: lambda *tensors: None)(", source)
    module = emulator.load(source)
    module(inputs, outputs)
    assert module.tripped() == (
        oracle.tripped(p, inputs) is not None
    )  # of inputs where how chunks are cut is no matter
    return outputs[0], oracle.run(rescue(p), inputs)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_rescue_gives_f32_s_result(name):
    def huge(tensors):
        tensors[0] *= 1e6

    have, want = run(CASES[name], huge)
    assert torch.linalg.vector_norm(have - want) <= 2e-6 * torch.linalg.vector_norm(want)


@pytest.mark.parametrize("name", ["along_k", "conv", "then_a_norm"])
def test_without_need_the_rescue_leaves_the_result_alone(name):
    have, _ = run(CASES[name])
    assert (have == MARK).all() or name == "then_a_norm"
    if name == "then_a_norm":  # its last stage is a kernel of our own, over what nobody wrote
        assert not torch.allclose(have, run(CASES[name])[1])


SPREAD = "program p(x: f32[64, 512], w: f32[64, 512]) -> f32[64, 64] {\n  guard f32\n  xh = transform(x) { to f16 }\n"
SPREAD += "  wh = transform(w) { to f16 }\n  y = gemm(xh, wh.T) { store f32 }\n  return y\n}"


@pytest.mark.parametrize(
    ("where", "value", "rescued"),
    [
        ((slice(None), slice(None)), 1e-6, True),  # all of it tiny
        ((5, slice(None)), 1e-4, True),  # one row tiny: no neighbour stands for it
        ((5, 17), 1e6, True),  # one element that overflows
        ((5, 17), 65504.0, False),  # the largest that f16 holds
        ((5, 17), 65505.0, True),
        ((5, 17), float("nan"), True),
        ((63, 511), float("-inf"), True),
        ((5, 17), 1e-8, False),  # tiny beside ones: 2^-25 is nothing to its neighbours
        ((5, slice(None)), 0.0, False),  # a row of zeros
    ],
)
def test_what_trips_it(where, value, rescued):
    def change(tensors):
        tensors[0].fill_(1.0)
        tensors[0][where] = value

    have, _ = run(SPREAD, change)
    assert (have != MARK).all() == rescued and (have == MARK).all() != rescued


# ---- results that are rounded where they are stored --------------------------------------------------------------

STORES = {
    "layernorm": "n = normalize(x) { op rmsnorm  over n  store f16  epilogue acc * s[n] }",
    "streamed": "n = normalize(x) { op softmax  over m  store f16  epilogue acc * s[n] }",
    "map": "n = map(x) { store f16  epilogue acc * s[n] }",
    "tiled": "n = map(t) { store f16  epilogue acc * s[h] }",
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    ("scale", "rescued"), [(1.0, False), (1e-7, True), (1e7, True), (float("nan"), True), (0.0, False)]
)
def test_a_kernel_of_our_own_looks_at_what_it_stores(kind, scale, rescued):
    text = "program p(x: f32[64, 192], w: f32[64, 192], s: f32[192]) -> f32[64, 64] {\n  guard f32\n"
    text += "  wh = transform(w) { to f16 }\n"
    if kind == "tiled":  # read along one axis, written along another
        text += "  a = transform(x) { view 1x64x192x1 }\n  t = transform(a) { layout nhwc }\n"
        text += STORES[kind].replace("store f16", "store f16 nchw") + "\n  v = transform(n) { view 64x192 }\n"
        text += "  y = gemm(v, wh.T) { store f32 }\n  return y\n}"
    else:
        text += STORES[kind] + "\n  y = gemm(n, wh.T) { store f32 }\n  return y\n}"

    def change(tensors):
        tensors[2].fill_(1.0 if kind != "streamed" else 64.0)
        tensors[2] *= scale

    have, want = run(text, change)
    assert (have == MARK).all() != rescued
    if rescued:
        torch.testing.assert_close(
            have, want, rtol=1e-5, atol=1e-6 * float(want.nan_to_num().abs().max()), equal_nan=True
        )
