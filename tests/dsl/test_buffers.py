"""Where a pipeline's tensors lie: what is alive together never overlaps, and the rest shares one workspace."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.ir import Acc, Also, Call, DType, Load, Map, Operand, Param, Program, TensorType, Transform, reads
from dsl.lower.plan.buffers import ALIGNMENT, Lifetime, Place, assign, changes_no_byte, peak, plan, rounded, types_of

F32, F16 = DType.F32, DType.F16


@st.composite
def lifetimes(draw):
    spans = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(1, 5000)), max_size=14))
    return [Lifetime(f"t{i}", size, first, first + length) for i, (first, length, size) in enumerate(spans)]


@given(lifetimes())
@settings(max_examples=200)
def test_buffers_in_use_together_never_overlap_and_the_total_is_between_the_peak_and_the_sum(buffers):
    offsets, total = assign(buffers)
    for one in buffers:
        assert offsets[one.name] % ALIGNMENT == 0 and offsets[one.name] + one.size <= total
        for other in buffers:
            if one is not other and one.meets(other):
                low, high = sorted((one, other), key=lambda b: offsets[b.name])
                assert offsets[low.name] + low.size <= offsets[high.name]
    assert peak(buffers) <= total <= sum(rounded(b.size) for b in buffers)


def test_a_chain_needs_its_two_largest_neighbours_and_no_more():
    chain = [Lifetime(f"t{i}", size, i, i + 1) for i, size in enumerate((1000, 4000, 300, 4000, 2000, 256))]
    assert assign(chain)[1] == peak(chain) == rounded(4000) + rounded(2000)


def test_random_chains_often_meet_the_peak():
    import random

    pick = random.Random(7)
    met = 0
    for _ in range(200):
        buffers = [Lifetime(f"t{i}", pick.randint(1, 1 << 20), i, i + pick.randint(1, 3)) for i in range(8)]
        met += assign(buffers)[1] == peak(buffers)
    assert met > 140, met


def pipeline(*stages, params=("x", "w"), results=("y",), shape=(4, 64)) -> Program:
    kind = TensorType(F32, shape)
    types_by_name = {s.name: s.type for s in stages} | {a.name: a.type for s in stages for a in s.also}
    types = tuple(types_by_name.get(r, kind) for r in results)
    return Program("p", tuple(Param(p, kind) for p in params), stages, results, types)


def mapped(name, x, *more, kind=None, also=()):
    e = Acc()
    for other in more:
        e = Call("add", (e, Load(other, ("m", "n"))))
    return Map(name=name, x=Operand(x), epilogue=e, type=kind or TensorType(F32, (4, 64)), also=also)


def viewed(name, x, shape, **more):
    return Transform(name=name, x=Operand(x), view=shape, type=TensorType(F32, shape), **more)


def test_results_are_written_straight_into_the_outputs_and_dead_bytes_are_used_again():
    p = pipeline(mapped("a", "x"), mapped("b", "a"), mapped("c", "b"), mapped("y", "c", "w"))
    buffers = plan(p)
    assert buffers.places["x"] == Place("input", 0) and buffers.places["y"] == Place("output", 0)
    assert buffers.places["a"] == buffers.places["c"] != buffers.places["b"]
    assert buffers.workspace == 2 * 1024 and buffers.prepacked == 0


def test_what_an_epilogue_reads_later_stays():
    p = pipeline(mapped("a", "x"), mapped("b", "a"), mapped("c", "b"), mapped("y", "c", "a"))
    buffers = plan(p)
    assert len({buffers.places[n] for n in "abc"}) == 3


def test_an_also_has_bytes_of_its_own_and_may_be_a_result():
    also = (Also("s", Acc(), TensorType(F32, (4, 64))),)
    p = pipeline(mapped("a", "x", also=also), mapped("y", "a"), results=("y", "s"))
    assert plan(p).places["s"] == Place("output", 1)
    q = pipeline(mapped("a", "x", also=also), mapped("y", "a", "s"))
    assert plan(q).places["s"] != plan(q).places["a"]


def test_a_view_is_another_name_and_keeps_its_source_alive():
    p = pipeline(mapped("a", "x"), viewed("v", "a", (64, 4)), mapped("b", "x"), mapped("y", "b", "v"))
    buffers = plan(p)
    assert buffers.views == {"v"} and buffers.places["v"] == buffers.places["a"] != buffers.places["b"]


def test_a_view_that_is_the_result_makes_its_source_write_there():
    p = pipeline(mapped("a", "x"), viewed("y", "a", (64, 4)))
    assert plan(p).places["a"] == Place("output", 0) and plan(p).workspace == 0


def test_a_view_of_a_parameter_or_of_another_result_is_copied_into_its_own_output():
    assert plan(pipeline(viewed("y", "x", (64, 4)))).views == frozenset()
    p = pipeline(mapped("a", "x"), viewed("y", "a", (64, 4)), results=("a", "y"))
    assert plan(p).places["a"] == Place("output", 0) and plan(p).places["y"] == Place("output", 1)
    q = pipeline(mapped("a", "x"), viewed("y", "a", (64, 4)), viewed("z", "a", (2, 128)), results=("y", "z"))
    assert plan(q).places["a"] == Place("output", 0) and plan(q).views == {"y"}


def test_prepacked_tensors_lie_apart_and_name_the_parameters_they_come_from():
    pack = Transform(name="q", x=Operand("w"), to=F16, prepack=True, type=TensorType(F16, (4, 64)))
    p = pipeline(mapped("a", "x"), pack, mapped("y", "a", "q"))
    buffers = plan(p)
    assert buffers.places["q"] == Place("prepacked", 0) and buffers.prepacked == 512 and buffers.sources == (1,)
    again = Transform(name="r", x=Operand("q"), permute=(1, 0), prepack=True, type=TensorType(F16, (64, 4)))
    assert plan(pipeline(pack, again, mapped("y", "x", "r"))).sources == (1,)


def test_what_cannot_be_prepacked_says_so():
    pack = Transform(name="q", x=Operand("a"), to=F16, prepack=True, type=TensorType(F16, (4, 64)))
    with pytest.raises(ValueError, match="computed in each call"):
        plan(pipeline(mapped("a", "x"), pack, mapped("y", "a", "q")))


def test_only_a_transform_that_moves_nothing_is_a_view():
    image = TensorType(F32, (2, 8, 4, 4))
    last = TensorType(F32, (2, 8, 4, 4), "nhwc")
    point, point_last = TensorType(F32, (2, 8, 1, 1)), TensorType(F32, (2, 8, 1, 1), "nhwc")

    def stage(**more):
        return Transform(name="t", x=Operand("x"), **more)

    assert changes_no_byte(stage(view=(16, 16), type=TensorType(F32, (16, 16))), image)
    assert not changes_no_byte(stage(view=(16, 16), type=TensorType(F32, (16, 16))), last)
    assert not changes_no_byte(stage(store_layout="nhwc", type=last), image)
    assert changes_no_byte(stage(store_layout="nhwc", type=point_last), point)
    assert not changes_no_byte(stage(to=F16, type=TensorType(F16, (2, 8, 4, 4))), image)
    assert not changes_no_byte(stage(permute=(0, 2, 3, 1), type=TensorType(F32, (2, 4, 4, 8))), image)
    assert changes_no_byte(stage(permute=(0, 2, 1, 3), type=TensorType(F32, (2, 1, 8, 1))), point)
    assert not changes_no_byte(stage(crop=(2, 8, 4, 3), type=TensorType(F32, (2, 8, 4, 3))), image)


@st.composite
def programs(draw):
    """Pipelines of maps and views over tensors of 256 elements, with random reads and results."""
    names, stages = ["x", "w"], []
    for i in range(draw(st.integers(1, 9))):
        source, name = draw(st.sampled_from(names)), f"s{i}"
        if draw(st.integers(0, 2)) == 0:
            stages.append(viewed(name, source, draw(st.sampled_from([(4, 64), (64, 4), (256,)]))))
        else:
            stages.append(mapped(name, source, *draw(st.lists(st.sampled_from(names), max_size=2))))
        names.append(name)
    results = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    return pipeline(*stages, results=tuple(results))


@given(programs())
@settings(max_examples=150)
def test_run_by_the_plan_every_stage_reads_what_was_written(program):
    """The plan executed on a model of memory: each launch writes its name over its bytes, and each read must find the
    name of what it reads. So must the outputs at the end."""
    buffers, types = plan(program), types_of(program)
    root = {name: name for name in types}
    memory: dict[tuple[str, int], str] = {}

    def cells(name):
        place, count = buffers.places[name], types[name].bytes // ALIGNMENT
        first = place.at * 10_000 if place.where in ("input", "output") else place.at // ALIGNMENT
        return [(place.where, first + i) for i in range(count)]

    for p in program.params:
        memory |= dict.fromkeys(cells(p.name), p.name)
    for stage in program.stages:
        for name in reads(stage):
            assert {memory.get(c) for c in cells(name)} == {root[name]}
        if stage.name in buffers.views:
            root[stage.name] = root[stage.x.name]
        else:
            memory |= dict.fromkeys(cells(stage.name), stage.name)
    for i, name in enumerate(program.results):
        assert buffers.places[name] == Place("output", i) and {memory[c] for c in cells(name)} == {root[name]}
