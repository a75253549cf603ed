"""An epilogue becomes leaves and one expression: order, kinds of operand, sharing."""

import re

import pytest

from dsl.functions import TABLE
from dsl.ir import Acc, Call, DType, Load, Number, TensorType
from dsl.lower.cpp import lower
from dsl.lower.cpp.epilogue import literal, plan
from dsl.lower.cpp.functions import FUNCTIONS, OPERATORS

from . import programs

F32 = DType.F32


def tree(expr, l=1, m=64, n=64, **shapes):  # noqa: E741
    return plan(expr, {name: TensorType(F32, shape) for name, shape in shapes.items()}, l, m, n)


def test_operand_order_is_kept():
    built = tree(Call("sub", (Load("r", ("m", "n")), Call("div", (Acc(), Load("g", ("m",)))))), r=(64, 64), g=(64,))
    assert built.value == "in_r_source - fast_divide(acc, in_g_column)"
    assert [leaf.kind for leaf in built.leaves] == ["source", "acc", "column"]


def test_row_and_column_are_told_apart_by_axis_when_m_equals_n():
    text = lower(programs.gemm("acc * g[m] + b[n]", "g: f32[256], b: f32[256]")).text
    assert re.search(r"Leaf1 = fusion::Sm90ColBroadcast<.*// g\[m\]", text)
    assert re.search(r"Leaf2 = fusion::Sm90RowBroadcast<.*// b\[n\]", text)


def test_arguments_stand_in_the_order_of_the_leaves_with_the_node_last():
    text = lower(programs.gemm("(s - acc) * b[n]", "b: f32[256], s: f32[]")).text
    assert "Sm90EVT<Compute, Leaf0, Leaf1, Leaf2>" in text
    arguments = re.search(r"Fusion::Arguments tree\{(.*?)\};\n  cutlass", text, re.S)[1]
    assert re.findall(r"typename (\w+)::Arguments", arguments) == ["Leaf0", "Leaf1", "Leaf2", "Compute"]
    assert re.search(r"Leaf0::Arguments\{.*on\.in_s_scalar", arguments)
    assert re.search(r"Leaf2::Arguments\{.*on\.in_b_row", arguments)
    operands = re.search(r"struct Operands \{(.*)\};", text)[1]
    assert re.findall(r"in_\w+", operands) == ["in_s_scalar", "in_b_row"]
    assert "{inputs[0], inputs[1], outputs[0], inputs[3], inputs[2]}" in text


def test_a_tensor_named_twice_is_fetched_once():
    r = Load("r", ("m", "n"))
    built = tree(Call("add", (Call("mul", (Acc(), r)), r)), r=(64, 64))
    assert [leaf.kind for leaf in built.leaves] == ["acc", "source"]


def test_the_second_full_tensor_is_an_auxiliary_load():
    built = tree(
        Call("add", (Call("mul", (Acc(), Load("r", ("m", "n")))), Load("q", ("m", "n")))), r=(64, 64), q=(64, 64)
    )
    assert [leaf.kind for leaf in built.leaves] == ["acc", "source", "aux"]


def test_a_shared_subexpression_is_written_once_however_deep_the_sharing():
    shared = Acc()
    for _ in range(64):  # 2^64 leaves if it were spelled out
        shared = Call("mul", (Call("add", (shared, Number(1.0))),) * 2)
    built = tree(shared)
    assert len(built.statements) == 64
    assert built.statements[0] == "float const t0 = acc + 1.0f;"


@pytest.mark.parametrize(
    ("shape", "batch"), [((64,), 0), ((3, 64), 64)], ids=["one for all batches", "one for each batch"]
)
def test_batch_strides(shape, batch):
    axes = ("n",) if len(shape) == 1 else ("l", "n")
    built = tree(Call("add", (Acc(), Load("b", axes))), l=3, b=shape)
    assert built.leaves[1].batch == batch


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.0, "2.0f"), (0.1, "0.1f"), (-0.5, "(-0.5f)"), (1e-7, "1e-07f"), (16777217.0, "16777216.0f"), (-0.0, "(-0.0f)")],
)
def test_literals_read_back_as_the_nearest_float(value, text):
    assert literal(value) == text


def test_every_function_of_the_language_is_covered():
    assert set(TABLE) == set(FUNCTIONS) | set(OPERATORS) | {"neg"}
    assert all(TABLE[name].arity == arity for name, (arity, _) in FUNCTIONS.items())
