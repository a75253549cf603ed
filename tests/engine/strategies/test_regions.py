"""A module is cut into regions that become programs; the rest is named, and everything runs in an order that exists."""

import pytest

from dsl.printer import to_text
from engine.devices import SessionRefused
from engine.strategies.planner.regions.partition import partition
from tests.engine.graphs import Builder, linear


def experts(count=2):
    """Every expert on every row, weighted by a router: a slice is no rule's."""
    g = Builder()
    x = g.input("x", (64, 32))
    weights = g.op(
        "softmax", [g.op("linear", [x, g.parameter("router", (count, 32))], (64, count))], (64, count), dim=-1
    )
    y = None
    for i in range(count):
        up = g.op("gelu", [g.op("linear", [x, g.parameter(f"up.{i}", (48, 32))], (64, 48))], (64, 48))
        down = g.op("linear", [up, g.parameter(f"down.{i}", (32, 48))], (64, 32))
        share = g.op("slice", [weights], (64, 1), dim=1, start=i, end=i + 1, step=1)
        part = g.op("mul", [share, down], (64, 32))
        y = part if y is None else g.op("add", [y, part], (64, 32), alpha=1)
    return g.graph(y)


def runs_in_order(parts):
    """Every region and every operation outside finds what it reads: by executing names, each as soon as it can."""
    ready_names = {n for n, t in parts.graph.tensors.items() if t.kind != "intermediate"}
    inside = {name for r in parts.regions for name in r.ops}
    todo = [(set(r.inputs), set(r.outputs)) for r in parts.regions]
    todo += [(set(op.inputs), set(op.outputs)) for op in parts.graph.ops if op.name not in inside]
    while todo:
        ready = next((t for t in todo if t[0] <= ready_names), None)
        if ready is None:
            return False
        ready_names |= ready[1]
        todo.remove(ready)
    return set(parts.graph.outputs) <= ready_names


def test_a_module_that_the_rules_take_whole_is_one_region():
    parts = partition(linear([("relu", {})]))
    assert parts.whole and not parts.uncovered and parts.regions[0].number == 1


def test_what_no_rule_takes_is_named_with_its_line_and_reason():
    parts = partition(experts())
    assert [(u.op, u.line) for u in parts.uncovered] == [("slice", 6), ("slice", 11)]
    assert (
        parts.uncovered[0].reason == "`aten.slice` (line 6) is read by `aten.mul`, whose stage reads no slice in place"
    )
    assert not parts.whole and [op.op for op in parts.rest.ops] == ["slice", "slice"]


def test_the_experts_wait_for_their_shares_which_their_epilogues_apply():
    router, both = partition(experts()).regions
    assert router.outputs == ("softmax_1",) and "softmax" in to_text(router.lowered.program("tf32"))
    assert set(both.inputs) >= {"x", "slice_5", "slice_10"}
    text = to_text(both.lowered.program("tf32"))
    assert text.count("gemm(") == 4 and "epilogue h2[m, n] + slice_10[m] * acc" in text


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_part_finds_what_it_reads(count):
    assert runs_in_order(partition(experts(count)))


def test_an_operation_outside_parts_what_comes_before_from_what_comes_after():
    g = Builder()
    h = g.op("linear", [g.input("x", (64, 32)), g.parameter("a", (32, 32))], (64, 32))
    s = g.op("logcumsumexp", [h], (64, 32), dim=0)
    y = g.op("linear", [g.op("add", [s, h], (64, 32), alpha=1), g.parameter("b", (32, 32))], (64, 32))
    parts = partition(g.graph(y))
    assert [r.ops for r in parts.regions] == [("linear_0",), ("add_2", "linear_3")]
    assert parts.regions[1].inputs[:2] == ("logcumsumexp_1", "linear_0") and runs_in_order(parts)


def test_a_view_that_is_read_outside_stays_outside_with_its_reader():
    g = Builder()
    x = g.input("x", (64, 32))
    turned = g.op("transpose", [x], (32, 64), dim0=0, dim1=1)
    s = g.op("logcumsumexp", [turned], (32, 64), dim=0)
    y = g.op("linear", [s, g.parameter("w", (16, 64))], (32, 16))
    parts = partition(g.graph(y))
    assert {u.op for u in parts.uncovered} == {"transpose", "logcumsumexp"} and len(parts.regions) == 1


def test_a_second_result_that_is_read_leaves_its_operation_outside():
    from sol.graph import Op, OpGraph, Tensor

    g = linear()
    tensors = {**g.tensors, **{n: Tensor(n, (256, 1), "f32", "intermediate") for n in ("values", "where")}}
    top = Op("topk", "topk", g.outputs, ("values", "where"), {"k": 1, "dim": -1}, 2)
    parts = partition(OpGraph(tensors, (*g.ops, top), g.inputs, ("where",)))
    assert [u.name for u in parts.uncovered] == ["topk"] and "several results" in parts.uncovered[0].reason


def test_a_region_that_no_back_end_takes_is_cut_until_the_fault_stands_alone():
    g = Builder()
    h = g.input("x", (64, 32))
    for i in range(4):
        h = g.op("linear", [h, g.parameter(f"w.{i}", (32 + 16 * i, 32 + 16 * max(i - 1, 0)))], (64, 32 + 16 * i))

    def accept(lowered):
        return "too wide" if any(s.shape == (64, 64) for s in lowered.stages) else None  # the third alone

    parts = partition(g.graph(h), accept)
    assert [u.name for u in parts.uncovered] == ["linear_2"]
    assert [r.ops for r in parts.regions] == [("linear_0", "linear_1"), ("linear_3",)] and runs_in_order(parts)


def test_nothing_covered_is_refused_with_the_first_reason_in_full():
    g = Builder()
    with pytest.raises(SessionRefused, match="logcumsumexp") as caught:
        partition(g.graph(g.op("logcumsumexp", [g.input("x", (8, 8))], (8, 8), dim=0)))
    assert caught.value.line == 1 and caught.value.covered[0][0] == "products"


def test_an_operation_that_can_run_neither_in_a_program_nor_beside_one_is_refused_at_once():
    g = Builder()
    y = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32))], (64, 48))
    with pytest.raises(SessionRefused, match=r"`aten.ormqr` \(line 2\) is not an operation .* get_inputs\(\)") as e:
        partition(g.graph(g.op("ormqr", [y], (64, 48))))
    assert (e.value.code, e.value.line) == ("not_covered", 2)


def test_a_residual_in_another_order_is_copied_in_a_stage_before_its_reader():
    """A token mixer's residual: the product is over tokens, x over features."""
    g = Builder()
    x = g.input("x", (4, 64, 32))
    product = g.op("linear", [g.op("gelu", [x], (4, 64, 32)), g.parameter("w", (32, 32))], (4, 64, 32))
    back = g.op("transpose", [product], (4, 32, 64), dim0=1, dim1=2)
    parts = partition(g.graph(g.op("add", [g.input("y", (4, 32, 64)), back], (4, 32, 64), alpha=1)))
    assert parts.whole and not parts.uncovered
    text = to_text(parts.regions[0].lowered.program("tf32"))
    assert text.index("permute") < text.rindex("map(")


def test_a_view_of_what_pytorch_makes_is_said_to_be_one():
    g = Builder()
    y = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32))], (64, 48))
    summed = g.op("logcumsumexp", [y], (64, 48), dim=0)
    parts = partition(g.graph(g.op("transpose", [summed], (48, 64), dim0=0, dim1=1)))
    assert [u.op for u in parts.uncovered] == ["logcumsumexp", "transpose"]
    assert parts.uncovered[1].reason == (
        "`aten.transpose` (line 3) only changes how a tensor is seen that no program beside it makes"
    )


def turned_result(*after, out=(48, 64), strides=(1, 48)):
    """A product whose result is returned with its axes swapped, as PyTorch sees it without a copy."""
    from dataclasses import replace

    g = Builder()
    h = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32))], (64, 48))
    y = g.op("transpose", [h], (48, 64), dim0=0, dim1=1)
    for op, attributes in after:
        y = g.op(op, [y], out, **attributes)
    graph = g.graph(y)
    graph.tensors[y] = replace(graph.tensors[y], strides=strides)
    return graph


def test_a_returned_view_that_a_program_would_have_to_copy_stays_pytorch():
    parts = partition(turned_result())
    assert [(u.op, "moves nothing in PyTorch" in u.reason) for u in parts.uncovered] == [("transpose", True)]
    assert [r.ops for r in parts.regions] == [("linear_0",)] and runs_in_order(parts)
    assert "transform" not in to_text(parts.regions[0].lowered.program("f16")).partition("gemm(")[2]


def test_a_returned_view_in_its_own_order_is_part_of_the_program():
    parts = partition(turned_result(("contiguous", {}), strides=()))
    assert parts.whole


def test_a_view_of_a_view_stays_pytorch_with_it():
    shown = turned_result(("unsqueeze", {"dim": 0}), out=(1, 48, 64), strides=(3072, 1, 48))
    assert {u.op for u in partition(shown).uncovered} == {"transpose", "unsqueeze"}


def test_the_work_of_a_search_grows_with_the_regions_not_with_their_square(monkeypatch):
    """256 steps of a loop with a `cat` each were lowered 67,000 times, in 78 s."""
    from engine.strategies.planner.regions import partition as searching

    attempts = []
    original = searching.lower
    monkeypatch.setattr(searching, "lower", lambda *a: attempts.append(1) or original(*a))
    parts = partition(experts(24))
    assert len(parts.uncovered) == 24 and len(attempts) <= 2 * len(parts.regions) + 2


def test_a_result_and_its_view_are_one_result_of_the_program():
    g = Builder()
    h = g.op("linear", [g.input("x", (64, 32)), g.parameter("a", (48, 32))], (64, 48))
    y = g.op("relu", [h], (64, 48))
    v = g.op("view", [y], (8, 8, 48), size=[8, 8, 48])
    for outputs in ((y, v), (v, y)):
        parts = partition(g.graph(*outputs))
        assert [r.outputs for r in parts.regions] == [("relu_1",)] and runs_in_order(parts)
        assert [(u.op, "returns each once" in u.reason) for u in parts.uncovered] == [("view", True)]
