"""How tensors reach quack: every `.T`, every batch, every way an epilogue may read."""

import re

import pytest

from dsl.lower.cute import lower

from . import programs


def call(program) -> str:
    """The arguments with which `run` launches stage y."""
    return re.search(r"^        Y\((.*)\)$", lower(program).text, re.MULTILINE)[1]


def b_kn(program) -> bool:
    return "b_kn=True" in lower(program).text


@pytest.mark.parametrize(
    ("a", "b", "text", "views", "kn"),
    [
        ("64, 32", "48, 32", "x, w.T", "x, w, y, {}", False),
        ("64, 32", "32, 48", "x, w", "x, w, y, {}", True),
        ("32, 64", "48, 32", "x.T, w.T", "x.mT, w, y, {}", False),
        ("32, 64", "32, 48", "x.T, w", "x.mT, w, y, {}", True),
    ],
)
def test_transposed_operands_are_views(a, b, text, views, kn):
    program = programs.batched(a, b, "64, 48", text)
    assert call(program) == views and b_kn(program) is kn


def test_several_leading_axes_are_one():
    assert call(programs.batched("2, 3, 64, 32", "2, 3, 32, 48", "2, 3, 64, 48", "x, w")) == (
        "x.view(6, 64, 32), w.view(6, 32, 48), y.view(6, 64, 48), {}"
    )


def test_batches_that_share_b_are_one_tall_product():
    program = programs.batched("8, 60, 32", "48, 32", "8, 60, 48", "x, w.T", "acc + b[n]", "b: f32[48]")
    assert call(program) == 'x.view(480, 32), w, y.view(480, 48), {"b": b}'


def test_an_operand_of_one_axis_of_the_two_keeps_the_batch():
    program = programs.batched("8, 60, 32", "48, 32", "8, 60, 48", "x, w.T", "acc + b[m]", "b: f32[60]")
    assert call(program) == 'x, w.expand(8, 48, 32), y, {"b": b}'
    assert 'ColVecLoad("b")' in lower(program).text


def test_vectors_are_pinned_where_m_equals_n():
    text = lower(programs.gemm("acc * b[n] + b[m]", "b: f32[256]")).text
    assert '@gemm_epilogue(ops={"b_n": RowVecLoad("b_n"), "b_m": ColVecLoad("b_m")})' in text
    assert '{"b_n": b, "b_m": b}' in text


def test_full_tensors_and_scalars():
    text = lower(programs.gemm("acc * s + r[m, n] - h", "s: f32[], r: bf16[256, 256], h: f16[]")).text
    assert 'Scalar("s")' in text and 'TileLoad("r")' in text and 'Scalar("h", Float16)' in text
    assert "Float32(h)" in text  # f16 scalars are widened; the arithmetic is f32


def test_names_that_python_or_quack_need_are_changed():
    program = programs.program(
        "program p(c: f16[256, 64], D: f16[128, 64], count: f32[128], stages: f32[256]) -> f16[256, 128] {\n"
        "  lambda = gemm(c, D.T) { epilogue (acc + count[n]) * stages[m] }\n  return lambda\n}"
    )
    text = lower(program).text
    compile(text, "generated", "exec")
    assert re.search(r"^def epilogue_\w+\(acc, count_, stages_\):$", text, re.M)


def test_a_part_used_twice_is_computed_once():
    text = lower(programs.gemm("silu(acc) * silu(acc)")).text
    assert text.count("silu(acc)") == 2 + 1  # the program in the docstring, and one line of code
    assert 't1 = silu(acc)\n    return {"D": t1 * t1}' in text
