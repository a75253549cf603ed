"""A program that leaves out work which the module asks for is offered, shown as what it is, best only if allowed."""

import pytest

from engine.devices import Problem
from engine.session import events
from engine.session.journal import Journal
from engine.session.script.state_fold import StateFold
from engine.session.trial import Proposal
from engine.session.verdict import judge
from engine.strategies.api import Finished, State
from engine.strategies.planner.planner import ALGEBRAIC
from sol.bounds import t_sol
from sol.hardware import load
from tests.engine.planning import planned
from tests.engine.strategies.test_algebra import summed

H200 = load("h200")


@pytest.fixture(scope="module")
def planner():
    return planned(Problem("", "module", summed()), ("tf32",), H200, "predicted")


def proposals(planner, many):
    trials = []
    while len(trials) < many:
        done = tuple(Finished(i + 1, p.text, p.cls, p.backend, ms=1.0) for i, p in enumerate(trials))
        p = planner.next(State(done))
        if p is None:
            break
        trials.append(p)
    return trials


def test_it_comes_after_the_modules_own_work_and_few_times(planner):
    offered = [planner.problem.algebraic(p.text, "tf32") is not None for p in proposals(planner, 8)]
    assert offered[:2] == [False, True] and sum(offered) <= ALGEBRAIC


def test_its_change_and_reason_say_what_was_done(planner):
    p = proposals(planner, 2)[1]
    assert p.change.startswith("algebraic: ") and "gemm" not in p.text
    assert p.why.startswith("a sum over a product's columns as a matrix-vector product; ") and "\n" not in p.why


def test_it_is_bound_to_the_modules_tensors_and_held_to_its_own_limit(planner):
    p = proposals(planner, 2)[1]
    inputs, outputs = planner.problem.bind(p.text)
    assert {b.tensor for b in inputs} == {"x", "w", "b"}
    assert [b.tensor for b in outputs] == list(planner.problem.graph.outputs)
    assert 0 < planner.problem.algebraic(p.text, "tf32").limits["tf32"] <= t_sol(planner.problem.graph, H200, "tf32")


def judged(planner, allowed):
    """The second trial, much faster than the first one."""
    candidate = proposals(planner, 2)[1].candidate
    measured = events.TrialMeasured(2, events.Prediction(0.5, "m", "h200"), "eager_tf32", 2.0, 4.0)
    left_out = planner.problem.algebraic(candidate.text, "tf32")
    end = judge(2, candidate, measured, 1.0, {"tf32": 0.4}, left_out, algebraic=allowed)
    log = [Proposal(candidate).event(2), measured, end]
    journal = Journal(log, {events.blob_name(candidate.text): candidate.text}.__getitem__)
    return end, StateFold(journal, planner.problem, {}, {"trials": 9}, algebraic=allowed).finished(2)


def test_it_is_the_best_of_nothing_unless_it_is_allowed(planner):
    end, done = judged(planner, allowed=False)
    assert not end.best and not done.clean and end.algebraic and "no best unless it is allowed" in end.text
    assert State((done,)).best("tf32") is None
    assert {"name": "algebra", "verdict": "minor", "said": end.algebraic} in end.evidence


def test_allowed_it_may_win_and_is_still_called_what_it_is(planner):
    end, done = judged(planner, allowed=True)
    assert end.best and done.clean and end.algebraic and end.verdict == "minor"
