"""A measurement has parts with graphs of their own; all of them run in one way, which the measurement names."""

import contextlib

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity.measuring import LEAST, OPENING_SECONDS, PARTS, Run
from engine.evaluate.timing.outside.runner import CALLS, GRAPH
from engine.evaluate.timing.outside.sides import Opened

TIMES = {GRAPH: (1.0, 1.0), CALLS: (9.0, 3.0)}  # ms of PyTorch, whose many launches take time, and of the candidate


class Captured:
    """Sides whose candidate can be captured as often as `times`, and is called from Python then."""

    serving = contextlib.nullcontext

    def __init__(self, times):
        self.left, self.mode = times, ""
        self.open("eager", 8, GRAPH)

    def open(self, baseline, calls, mode):
        self.left -= mode == GRAPH
        self.mode = mode if self.left >= 0 else CALLS
        return Opened(self.mode, "it cannot be captured" if self.mode != mode else "", "f32", "", calls)

    def pair(self):
        return (*TIMES[self.mode], 0)


@pytest.mark.parametrize("times", range(1, PARTS + 1))
def test_a_kernel_that_cannot_be_captured_again_has_call_times_and_says_so(times):
    run = Run(None, None, "f32")
    run.sides, run.opened = Captured(times), Opened(GRAPH, "", "f32", "", 8)
    pairs = run._pairs("eager")
    mode = GRAPH if times == PARTS else CALLS
    assert run.opened.mode == mode and (mode == GRAPH or run.opened.why)
    assert len(pairs) >= LEAST * PARTS and set(pairs) == {TIMES[mode]}


def test_calls_that_take_long_to_capture_are_not_captured_again():
    run, opens = Run(None, None, "f32"), []
    run.sides, run.opened = Captured(10), Opened(GRAPH, "", "f32", "", 8)
    run.sides.open = lambda *a: opens.append(a) or run.opened
    run.opening = OPENING_SECONDS + 1
    assert len(run._pairs("eager")) >= LEAST * PARTS and opens == []
