"""A program is known again by its text alone: its line, its structure, its region, and what its parameters are."""

import pytest

from dsl.check.program import check
from engine.devices import Problem, TrialError
from engine.strategies.api import State
from engine.strategies.planner.memory import Memory
from engine.strategies.planner.search.program_index import ProgramIndex
from sol.hardware import load
from tests.engine.graphs import linear
from tests.engine.planning import planned
from tests.engine.strategies.test_regions import experts

H200 = load("h200")


def planner(graph, classes=("tf32", "f16")):
    return planned(Problem("", "module", graph), classes, H200, "predicted", memory=Memory())


@pytest.fixture(scope="module")
def whole():
    return planner(linear([("relu", {})], rows=256, k=512, n=512))


@pytest.fixture(scope="module")
def cut():
    return planner(experts(), ("tf32",))


def test_a_proposal_is_found_on_its_line_with_its_configuration(whole):
    programs = ProgramIndex(whole.all, H200.sms)
    for cls in whole.problem.classes:
        text = whole.lines[cls].text(whole.lines[cls].seeds()[0])
        line, structure, config = programs.lookup(cls, text)
        assert line is whole.lines[cls] and structure is line.structures[0]
        assert config.tile == whole.lines[cls].ranked[0].config.tile
    assert programs.lookup("bf16", text) == (None, None, None)  # no line of that class
    assert programs.lookup("f16", "program broken") == (None, None, None)


def test_a_region_is_known_by_its_programs_name_or_by_what_it_takes_and_returns(cut):
    programs = ProgramIndex(cut.all, H200.sms)
    for line in cut.all:
        text = line.text(line.plan()[0])
        assert programs.region(text) == line.number
        renamed = text.replace(f"program {check(text).program.name}(", "program mine(")
        assert programs.region(renamed) == line.number


def test_parameters_are_bound_by_name_or_in_order_by_type(whole):
    text = whole.next(State()).text
    inputs, outputs = whole.problem.bind(text)
    names = [b.name for b in inputs]
    other = text
    for i, name in enumerate(names):
        other = other.replace(name, f"mine{i}")
    renamed, _ = whole.problem.bind(other)
    assert [b.tensor for b in renamed] == [b.tensor for b in inputs]
    assert [b.name for b in renamed] == [f"mine{i}" for i in range(len(names))]
    assert outputs[0].tensor == whole.problem.graph.outputs[0]


def test_another_signature_is_told_what_the_module_takes(whole):
    small = "program p(x: f16[8, 64], w: f16[64, 64]) -> f16[8, 64] {\n  y = gemm(x, w)\n  return y\n}\n"
    with pytest.raises(TrialError, match=r"must take what the module takes: \(x: f32\[256, 512\]"):
        whole.problem.bind(small)
