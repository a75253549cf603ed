"""A class of half precision has products in tf32 as well, where a cast of the operands costs more than it saves."""

import pytest

from dsl.ir import DType
from engine.classes import class_of
from engine.devices import Problem
from engine.strategies.planner import memory
from sol.hardware import load
from tests.engine.graphs import Builder
from tests.engine.planning import planned


def product(m: int, n: int, k: int) -> Problem:
    g = Builder()
    x, w = g.input("x", (m, k)), g.input("w", (k, n))
    return Problem("", "module", g.graph(g.op("matmul", [x, w], (m, n))))


def line(problem: Problem, classes: tuple[str, ...], cls: str):
    planner = planned(problem, classes, load("h200"), "measured")
    return next(x for x in planner.all if x.cls == cls)


@pytest.mark.parametrize("cls", ["f16", "bf16"])
def test_long_operands_that_are_read_once_are_not_cast_first(cls):
    mine = line(product(256, 256, 524288), (cls,), cls)
    first = mine.structures[0]
    assert class_of(first.base) == "tf32" and first.words.endswith(", products in tf32")
    assert not any(getattr(s, "to", None) for s in first.base.stages), "no cast"
    half = [s for s in mine.structures if class_of(s.base) == cls]
    assert half and all(first.ms < s.ms for s in half), "they are tried as well"


def test_where_multiplying_takes_longest_all_products_are_of_the_class():
    mine = line(product(4096, 4096, 4096), ("f16",), "f16")
    assert {class_of(s.base) for s in mine.structures} == {"f16"}


def test_a_session_in_tf32_too_tries_them_there_alone():
    mine = line(product(256, 256, 524288), ("tf32", "f16"), "f16")
    assert {class_of(s.base) for s in mine.structures} == {"f16"}


def test_a_module_in_half_precision_has_nothing_finer():
    g = Builder()
    x, w = g.input("x", (256, 8192), dtype="f16"), g.input("w", (8192, 256), dtype="f16")
    graph = g.graph(g.op("matmul", [x, w], (256, 256), dtype="f16"))
    mine = line(Problem("", "module", graph), ("f16",), "f16")
    assert all(s.base.stages[0].config.compute in (None, DType.F16) for s in mine.structures)


def test_what_it_learns_is_remembered_as_tf32():
    mine = line(product(256, 256, 524288), ("f16",), "f16")
    first = mine.structures[0]
    text = mine.text(mine.seeds()[0])
    entry = memory.won("a", "f16", first.backend, text, 0.27, 132, first.main)
    assert entry.cls == "tf32"


def test_each_of_their_trials_says_so():
    mine = line(product(256, 256, 524288), ("f16",), "f16")
    for step in (mine.plan()[0], mine.seeds()[0]):
        assert mine.proposal(step, load("h200")).change.endswith(", products in tf32")
