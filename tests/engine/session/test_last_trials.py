"""The session's own last trial, of what the search found best: its place in the log, and what it does not change."""

import pytest

pytest.importorskip("torch")

from engine.session import events
from engine.session.fold import figures
from engine.session.fold.reduce import fold
from engine.session.runner import run
from engine.session.script import last_trials
from tests.engine.counting import CountingDevice, spec
from tests.engine.session.scripted import of

MODULE = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 192)
    def forward(self, x):
        return F.leaky_relu(torch.logcumsumexp(torch.roll(self.linear(x), 1, 0), 0), 0.1)
def get_inputs(): return [torch.randn(64, 128)]
def get_init_inputs(): return []
"""


class Regions(CountingDevice):
    """A composition takes `ms` by the number of its programs, or `rested` with what stays PyTorch compiled; both are
    shares of the baseline's time."""

    compiles_rest = True

    def __init__(self, ms=0.5, rested=0.2, **more):
        super().__init__(**more)
        self.ms, self.rested, self.seen = ms, rested, []

    def measure(self, candidate, baseline):
        self._ask("measure", candidate)
        self.seen.append(candidate)
        ms = self.rested if candidate.rest else self.ms / len(candidate.placed)
        time = events.Prediction(ms * baseline.time.ms, "t_attainable", "h200")
        part = {
            "region": candidate.region, "region_ms": time.ms / 8, "programs": len(candidate.placed),
            "covered_ms": time.ms / 4, "region_eager_ms": time.ms, "graph": False,
        }  # fmt: skip
        if candidate.rest:
            part["rest"] = candidate.rest
        return events.TrialMeasured(
            candidate.trial, time, baseline.name, baseline.time.ms, baseline.time.ms / time.ms, part=part
        )


def play(device=None, past=(), blobs=None, control=tuple, **fields):
    """(events, their texts)"""
    blobs, log = dict(blobs or {}), list(past)
    asked = spec(**{"source": MODULE, "source_kind": "module", "classes": ("tf32",), "trials": 2, "eps": 0.0} | fields)
    device = device or Regions()
    for e in run(
        asked, device=device, history=list(enumerate(past, 1)), read_blob=blobs.__getitem__, control=control,
        local_user=True, teaches=False, memory="",
    ):  # fmt: skip
        blobs |= e.blobs
        log.append(e.event)
    return log, blobs, device


def engines(log):
    return [e for e in of(log, events.TrialProposed) if e.by == last_trials.BY]


def test_the_rule_that_ended_a_search_is_that_of_the_search():
    log, _, _ = play(trials=30, window=2)
    (proposed,) = engines(log)
    assert of(log, events.TrialJudged)[-1].trial == proposed.trial and of(log, events.TrialJudged)[-1].best
    (closed,) = log[-1].closed
    assert (closed["code"], closed["trials"]) == ("stalled", 2)


def test_the_history_marks_no_end_of_the_search_at_a_trial_after_it():
    log, _, _ = play()
    rows = [{"seq": i, "kind": e.KIND, "t": 0.0, "data": events.encode(e)} for i, e in enumerate(log, 1)]
    view = fold(rows)
    view.budget["eps"] = view.trials[engines(log)[0].trial].judged.gap - 1 + 1e-9
    assert figures._stop(view, "tf32").stopped_at is None


def test_a_loop_over_time_that_was_written_out_is_not_given_to_inductor():
    """It would compile a thousand operations, in minutes, for one trial."""
    loop = "for _ in range({}): x = torch.logcumsumexp(torch.roll(x, 1, 0), 0)\n        "
    for times, many in ((4, 1), (90, 0)):
        head, tail = MODULE.replace("self.linear(x)", "x").split("return F")
        log, _, _ = play(source=f"{head}x = self.linear(x)\n        {loop.format(times)}return F{tail}")
        assert len(engines(log)) == many


def test_a_log_cut_anywhere_in_it_goes_on_with_the_same_trial():
    log, blobs, device = play()
    (proposed,) = engines(log)
    (whole,) = [c for c in device.seen if c.rest]
    assert len(whole.placed) == 2
    for cut in range(log.index(proposed) - 1, len(log)):
        again, _, device = play(past=log[:cut], blobs=blobs)
        assert [e.KIND for e in again if not isinstance(e, events.Resumed)] == [e.KIND for e in log]
        assert engines(again) == [proposed] and set(device.asked.values()) <= {1}
        assert all([p.text for p in c.placed] == [p.text for p in whole.placed] for c in device.seen if c.rest)


@pytest.mark.parametrize("rest", ["", "inductor"])
def test_what_runs_again_is_what_was_asked_for(rest):
    log, blobs, _ = play(trials=1)
    first = of(log, events.TrialProposed)[0]
    one = {"trial": 1, "text": blobs[first.program], "cls": "tf32", "backend": first.backend, "rest": rest}
    device = Regions()
    device.kind = "measured"
    log, _, _ = play(device, strategy="again", options={"candidates": [one]})
    assert [(e.by, e.rest) for e in of(log, events.TrialProposed)] == [("strategy", rest)], log[-1].reason
    assert log[-1].state == "done" and log[-1].best == {"tf32": 1}
