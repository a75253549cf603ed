"""Pools whose windows overlap: a thread takes results below each other, and reads less for them."""

import re

import pytest
import torch

from dsl.lower.cute import lower
from dsl.lower.cute.reduce import pool
from engine.evaluate.correctness import oracle

from . import emulator, programs
from .test_own_kernels_mean_what_they_say import values

CASES = {
    "a tail of rows and of threads": (
        "x: f32[2, 3, 12, 9], s: f32[3]", "f32[2, 3, 11, 8]",
        "op max  window 4x4  stride 1x1  padding 1x1  epilogue acc * s[c]",
    ),
    "no padding": ("x: f32[1, 4, 10, 16]", "f32[1, 4, 8, 15]", "op max  window 3x2  stride 1x1"),
    "a stride below the window": (
        "x: f32[2, 4, 17, 15]", "f32[2, 4, 9, 5]", "op avg  window 3x5  stride 2x3  padding 1x1",
    ),
    "an operand of every result": (
        "x: f16[2, 3, 9, 8], r: f16[2, 3, 9, 8]", "f16[2, 3, 9, 8]",
        "op max  window 3x3  stride 1x1  padding 1x1  epilogue acc + r[b, c, h, w]",
    ),
    "two results": (
        "x: f32[1, 2, 8, 8]", "(f32[1, 2, 8, 8], f32[1, 2, 8, 8])",
        "op avg  window 3x3  stride 1x1  padding 1x1  also z = relu(acc)",
    ),
    "three axes": (
        "x: f32[1, 2, 5, 9, 6]", "f32[1, 2, 5, 9, 6]", "op max  window 3x3x3  stride 1x1x1  padding 1x1x1",
    ),
    "dilated along w": ("x: f32[1, 2, 8, 11]", "f32[1, 2, 6, 7]", "op max  window 3x3  stride 1x1  dilation 1x2"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Blocks of results in small tensors too, which an emulator can run."""
    monkeypatch.setattr(pool, "SMS", 0)


def program(name):
    params, results, clauses = CASES[name]
    returned = "y, z" if "also z" in clauses else "y"
    return programs.program(
        f"program p({params}) -> {results} {{\n  y = pool(x) {{ {clauses} }}\n  return {returned}\n}}"
    )


@pytest.mark.parametrize("name", CASES)
def test_results_are_pytorch_s(name):
    one = program(name)
    text = lower(one).text
    assert "results below each other" in text
    inputs = values(one, 1)
    outputs = [torch.full(t.shape, 77.0, dtype=inputs[0].dtype) for t in one.result_types]
    emulator.load(text)(inputs, outputs)
    for have, want in zip(outputs, oracle.run(one, inputs), strict=True):
        assert torch.allclose(
            have.double(), want.double(), rtol=2e-3 if have.dtype == torch.float16 else 2e-5, atol=1e-5
        )


def test_a_thread_reads_28_elements_for_four_windows_of_4_by_4():
    text = lower(program("a tail of rows and of threads")).text
    lines, columns = map(int, re.findall(r"for (?:line|last) in cutlass\.range_constexpr\((\d+)\)", text))
    assert (lines, columns) == (7, 4) and "range_constexpr(16)" not in text


@pytest.mark.parametrize(
    "clauses", ["window 2x2  stride 2x2", "window 3x3  stride 1x1  padding 1x1  dilation 2x1", "window 1x3  stride 1x1"]
)
def test_windows_without_a_common_row_are_taken_one_by_one(clauses):
    sizes = {"window 2x2  stride 2x2": "4, 4", "window 1x3  stride 1x1": "8, 6"}
    size = sizes.get(clauses, "6, 8")
    text = (
        f"program p(x: f32[1, 2, 8, 8]) -> f32[1, 2, {size}] {{\n  y = pool(x) {{ op max  {clauses} }}\n  return y\n}}"
    )
    assert "results below each other" not in lower(programs.program(text)).text
