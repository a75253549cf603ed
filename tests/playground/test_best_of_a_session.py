"""The best of a session is what its log calls so: lists, figures and exports present nothing else as an improvement."""

import pytest

from engine.export import ExportError, history
from engine.session import events
from engine.session.events import blob_name
from playground import figures
from playground.live import log
from playground.models import Session

pytestmark = pytest.mark.django_db

PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {\n  y = gemm(x, w)\n  return y\n}\n"
ALGEBRAIC = "a sum over a product's columns as a matrix-vector product"


def judged(trial, ms, best, verdict="clean", algebraic=""):
    return events.TrialJudged(
        trial, verdict, "f16", "measured", ms, 2.0 / ms, "eager_f16", ms / 0.1, 0.5, best, f"{ms} ms", [], algebraic
    )


def session_of(*ends):
    """A session whose trials end so, and its log as export reads it."""
    device = {"name": "cuda", "kind": "measured", "hardware": "h200"}
    budget = {"trials": 4, "eps": 0.0, "window": 9}
    name, ms = blob_name(PROGRAM), events.Prediction(2.0, "t_attainable", "h200")
    items = [
        events.SessionStarted("t", name, "program", device, "planner", ["f16"], budget),
        events.Reported("b" * 64, {"f16": 0.1}, "a limit"),
        events.Baseline("eager_f16", "f16", ms),
    ]
    for e in ends:
        items.append(events.TrialProposed(e.trial, "f16", name, "cute", "tile", "it may be faster"))
        items.append(events.TrialGenerated(e.trial, {"cute": {"text": name}}, {}, 0.1))
        items.append(e)
    items.append(events.SessionEnded("done", "over", {e.cls: e.trial for e in ends if e.best}, len(ends), 1.0))
    session = Session.objects.create(title="t", spec={})
    log.write(session, [(e, {name: PROGRAM} if i == 0 else {}, 1.0) for i, e in enumerate(items)])
    session.save()
    return session, [(e.KIND, events.encode(e)) for e in items]


def exported(rows):
    return history.of_trial(rows, {blob_name(PROGRAM): PROGRAM}.get).results["trial"]


def test_an_algebraic_trial_that_may_not_be_the_best_is_the_best_nowhere():
    session, rows = session_of(judged(1, 1.0, True), judged(2, 0.2, False, "minor", ALGEBRAIC))
    assert session.summary["best"]["trial"] == session.summary["by_class"]["f16"]["trial"] == 1
    drawn = figures.of(session)
    assert [r["best so far"] for r in drawn["history"]["rows"]] == [2.0, 2.0]
    assert exported(rows) == 1


def test_an_algebraic_trial_that_may_is():
    session, rows = session_of(judged(1, 1.0, True), judged(2, 0.2, True, "minor", ALGEBRAIC))
    assert session.summary["best"]["trial"] == exported(rows) == 2
    assert [r["best so far"] for r in figures.of(session)["history"]["rows"]] == [2.0, 10.0]


def test_what_is_slower_than_pytorch_is_no_best():
    session, rows = session_of(judged(1, 2.5, False), judged(2, 2.9, False))
    assert session.summary["best"] is None and not session.summary["by_class"]
    assert [r["best so far"] for r in figures.of(session)["history"]["rows"]] == [None, None]
    with pytest.raises(ExportError, match="no program of this session is better than PyTorch; name the trial"):
        exported(rows)


def test_a_time_that_is_not_counted_is_no_best():
    session, _ = session_of(judged(1, 1.0, True), judged(2, 0.01, False, "gaming"))
    assert session.summary["best"]["trial"] == 1
    assert [r["best so far"] for r in figures.of(session)["history"]["rows"]] == [2.0, 2.0]
