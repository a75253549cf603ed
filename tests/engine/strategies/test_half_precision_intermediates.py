"""Intermediates in half precision are left alone in a region once two structures that store them were wrong."""

import pytest

from engine.devices import Problem
from engine.strategies.api import Finished, State
from sol.hardware import load
from tests.engine.graphs import Builder
from tests.engine.planning import planned


def convolution_before_a_softmax():
    g = Builder()
    x, w = g.input("x", (8, 8, 66, 66)), g.parameter("w", (32, 8, 3, 3))
    y = g.op("conv2d", [x, w], (8, 32, 64, 64))
    return g.graph(g.op("softmax", [y], (8, 32, 64, 64), dim=1))


@pytest.fixture(scope="module")
def strategy():
    return planned(Problem("", "module", convolution_before_a_softmax()), ("f16",), load("h200"), "measured")


def played(strategy, is_wrong):
    """(structure, whether its result was wrong) of each of a session's trials."""
    trials, out = [], []
    while len(trials) < 9 and (p := strategy.next(State(tuple(trials), 9))):
        structure = strategy.programs.lookup(p.cls, p.text)[1]
        wrong = is_wrong(structure)
        failure = {"failed": "validate", "code": "wrong_result"} if wrong else {"ms": p.predicted_ms}
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, **failure))
        out.append((structure, wrong))
    return out


def test_two_structures_that_were_wrong_with_it_end_it(strategy):
    assert len({s.key for s in strategy.all[0].structures if s.narrow}) > 1
    wrong = [structure.key for structure, wrong in played(strategy, lambda s: s.narrow) if wrong]
    assert len(set(wrong)) == 2 and wrong[-1] != wrong[-2], "then no more"


def test_one_structure_that_was_wrong_does_not(strategy):
    first = next(s.key for s in strategy.all[0].structures if s.narrow)
    right = [s for s, wrong in played(strategy, lambda s: s.key == first) if not wrong]
    assert any(s.narrow for s in right)
