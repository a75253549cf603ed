"""The baseline's and the candidate's process prepare their calls at the same time, before anything is timed."""

import threading

import pytest

from engine.devices import TrialError
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.timing.outside.runner import CALLS, GRAPH
from engine.evaluate.timing.outside.sides import Sides


class Both:
    """Judge, candidate and baseline in one; `modes`: what each of the two sides can."""

    def __init__(self, theirs=GRAPH, ours=GRAPH, error=None, lost=None):
        self.modes, self.error, self.lost = {"theirs": theirs, "ours": ours}, error, lost
        self.meet = threading.Barrier(2, timeout=20)

    def clock_open(self, baseline, calls, mode):
        self.meet.wait()
        if self.lost:
            raise self.lost
        return {"mode": self.modes["theirs"] if mode == GRAPH else mode, "cls": "f16", "note": ""}

    def ask(self, op, seconds=0.0, **arguments):
        if op == "clock_lay":
            return {}
        self.meet.wait()
        if self.error:
            raise self.error
        mode = arguments["mode"]
        results = [[0]] * arguments["calls"]
        return {"mode": self.modes["ours"] if mode == GRAPH else mode, "why": "", "results": results}


def sides(both) -> Sides:
    one = Sides.__new__(Sides)
    one.judge = one.c = one.reference = both
    return one


def test_they_prepare_at_the_same_time():
    assert sides(Both()).open("eager", 4).mode == GRAPH, "each waits for the other"


@pytest.mark.parametrize("can", [{"theirs": CALLS}, {"ours": CALLS}])
def test_where_one_has_no_graph_both_are_called(can):
    assert sides(Both(**can)).open("eager", 4).mode == CALLS


def test_the_candidates_end_is_its_own():
    with pytest.raises(CandidateEnded, match="hung"):
        sides(Both(error=CandidateEnded("time_limit", "hung"))).open("eager", 4)


def test_a_lost_baseline_is_not_the_candidates_fault():
    both = Both(error=CandidateEnded("raised", "no"), lost=TrialError("measure", "reference_crashed", "was lost"))
    with pytest.raises(TrialError, match="was lost"):
        sides(both).open("eager", 4)


def test_nobody_disturbs_a_baseline_that_chooses_the_fastest_kernels():
    both, order = Both(), []
    both.clock_open = lambda *_: order.append("theirs") or {"mode": GRAPH}
    both.ask = lambda op, *_, **__: order.append(op) or {"mode": GRAPH, "results": [[0]] * 4}
    sides(both).open("compile_max_f16", 4)
    assert order == ["theirs", "clock_open", "clock_lay"]
