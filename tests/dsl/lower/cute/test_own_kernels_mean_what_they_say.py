"""Generated kernels of our own, every thread emulated, give what PyTorch gives; every access in bounds and aligned."""

import numpy
import pytest
import torch

from dsl.lower.cute import lower
from dsl.lower.cute.reduce import folds, shares
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.rounding import TORCH

from . import emulator, programs
from .own_cases import CASES

TOLERANCE = {torch.float16: 2e-3, torch.int32: 0}


def values(program, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for p in program.params:
        x = torch.randn(p.type.shape, generator=generator)
        tensors.append((x.abs() + 0.5 if p.name == "variance" else x).to(TORCH[p.type.dtype]))
    return tensors


@pytest.mark.parametrize("name", CASES)
def test_results_are_pytorch_s(name):
    program = programs.program(CASES[name])
    inputs = values(program, 1)
    outputs = [torch.full(t.shape, 77).to(TORCH[t.dtype]) for t in program.result_types]
    emulator.load(lower(program).text)(inputs, outputs)
    half = any(s.type.dtype.bits == 16 for s in program.stages)
    for have, want in zip(outputs, oracle.run(program, inputs), strict=True):
        assert have.shape == want.shape and have.dtype == want.dtype
        tolerance = 2e-3 if half else TOLERANCE.get(have.dtype, 2e-5)
        wrong = (have.double() - want.double()).abs() / (1 + want.double().abs())
        assert wrong.nan_to_num(99).max() <= tolerance


@pytest.mark.parametrize("op", ["sum", "min"])
def test_many_long_columns_have_blocks_of_1024_threads(op, monkeypatch):
    monkeypatch.setattr(shares, "SMS", 1)  # else nine million elements
    program = programs.program(
        f"program p(x: f32[2, 300, 259]) -> f32[2, 259] {{\n  y = reduce(x) {{ op {op}  over c }}\n  return y\n}}"
    )
    text = lower(program).text
    assert "128 x 8 threads" in text and "block=(1024, 1, 1)" in text
    x, out = torch.randn(2, 300, 259), torch.empty(2, 259)
    emulator.load(text)([x], [out])
    torch.testing.assert_close(out, x.sum(1) if op == "sum" else x.amin(1), rtol=1e-5, atol=1e-5)


def test_nan_and_infinities_go_where_pytorch_sends_them():
    x = torch.zeros(8, 100)
    x[0, 3], x[1, 5], x[2], x[3, 7] = torch.nan, torch.inf, -torch.inf, -torch.inf
    for op, want in (
        ("logsumexp", torch.logsumexp(x, 1)), ("max", x.amax(1)), ("min", x.amin(1)), ("argmax", x.argmax(1).int()),
    ):  # fmt: skip
        kind = "i32" if op == "argmax" else "f32"
        program = programs.program(
            f"program p(x: f32[8, 100]) -> {kind}[8] {{\n  y = reduce(x) {{ op {op}  over n }}\n  return y\n}}"
        )
        out = torch.empty(8, dtype=want.dtype)
        emulator.load(lower(program).text)([x], [out])
        assert torch.allclose(out, want, rtol=1e-6, equal_nan=True), op


def test_variance_is_not_a_difference_of_sums():
    program = programs.program(
        "program p(x: f32[4, 3, 60, 60]) -> f32[4, 3, 60, 60] {\n  y = normalize(x) { op instancenorm }\n  return y\n}"
    )
    x = torch.randn(4, 3, 60, 60, dtype=torch.float64) + 3000
    out = torch.empty(4, 3, 60, 60)
    emulator.load(lower(program).text)([x.float()], [out])
    want = torch.nn.functional.instance_norm(x.float().double())
    assert (out - want).abs().max() < 1e-3


def test_the_emulator_sees_what_is_out_of_bounds_and_off_alignment():
    text = lower(programs.program(CASES["map_full_f16"])).text
    program = programs.program(CASES["map_full_f16"])
    outputs = [torch.empty(t.shape) for t in program.result_types]
    with pytest.raises(AssertionError, match="outside a tensor"):
        emulator.load(text.replace("% 8\n", "% 9\n"))(values(program, 1), outputs)
    at = text.index("def y_at")
    with pytest.raises(AssertionError, match="off its boundary"):
        emulator.load(text[:at] + text[at:].replace(" * 8,", " * 7,", 1))(values(program, 1), outputs)


def test_the_rounding_of_a_sum_grows_with_its_chunks_and_not_with_its_elements():
    """30 chunks of 16 numbers, which one thread adds in f32: 2e-6 off if it adds them one by one."""
    names = {"Float32": numpy.float32}
    exec(folds.fold_text("Sum"), names)
    names["chosen"] = lambda live, values, neutral: list(values)
    names["registers"] = lambda width, value: [numpy.float32(value)] * width
    fold, one = names["Sum"], numpy.float32(0.7)
    state, alone = fold.start(1), numpy.float32(0.0)
    for _ in range(30):
        fold.fold(state, [[one]] * 16)
        for _ in range(16):
            alone = alone + one
    wanted = 480 * float(one)
    assert abs(float(state[0]) / wanted - 1) < 2e-7 < 1e-6 < abs(float(alone) / wanted - 1)
