"""The fold of a log: what stands, what counts, and that nothing in a log can break it."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from engine.session import events, recording
from engine.session.fold.listing import SHAPE, listing, plain
from engine.session.fold.reduce import DRAWN, KINDS, View, fold
from tests.engine.session.logs import logs

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = sorted((ROOT / "playground/recordings").glob("*.jsonl"))


def rows(*pairs):
    return [{"seq": i, "kind": kind, "t": 100.0 + i, "data": data} for i, (kind, data) in enumerate(pairs, 1)]


def of(*log):
    """The view of typed events."""
    return fold(rows(*((e.KIND, events.encode(e)) for e in log)))


def started(**changes):
    values = {"title": "t", "source": "a" * 64, "source_kind": "module", "device": {"name": "x", "kind": "predicted"},
              "strategy": "planner", "classes": ["tf32"], "budget": {"trials": 4, "eps": 0.2, "window": 3}}  # fmt: skip
    return events.SessionStarted(**(values | changes))


def proposed(n, cls="tf32", by="strategy"):
    return events.TrialProposed(n, cls, "b" * 64, "cute", "tile", "why", by=by)


def judged(n, ms, *, speedup=2.0, best=True, verdict="clean", cls="tf32", algebraic=""):
    return events.TrialJudged(
        n, verdict, cls, "predicted", ms, speedup, "eager_tf32", 1.5, 0.6, best, "text", [], algebraic
    )


def failed(n, code="wrong_result", step="validate"):
    return events.TrialFailed(n, step, code, "it is wrong")


# ---- the best ----


def test_the_best_is_what_the_engine_called_so():
    view = of(started(), proposed(1), judged(1, 1.0), proposed(2), judged(2, 0.5, best=False))
    assert view.best == {"tf32": 1} and view.fastest == {"tf32": 2}


def test_an_algebraic_trial_is_the_best_only_where_the_engine_allowed_it():
    first = (proposed(1), judged(1, 1.0), proposed(2))
    offered = of(started(), *first, judged(2, 0.5, best=False, algebraic="leaves out a sum"))
    assert offered.best == offered.fastest == {"tf32": 1} and not offered.counts(offered.trials[2])
    allowed = of(started(algebraic=True), *first, judged(2, 0.5, algebraic="leaves out a sum"))
    assert allowed.best == allowed.fastest == {"tf32": 2}


@pytest.mark.parametrize("verdict", ["gaming", "library only", "of another version"])
def test_a_flagged_trial_is_never_the_best(verdict):
    view = of(started(), proposed(1), judged(1, 1.0, verdict=verdict))
    assert view.best == view.fastest == {} and view.trials[1].outcome == "flagged"


def test_what_is_slower_than_pytorch_is_no_best_and_pytorch_stays():
    view = of(started(), proposed(1), judged(1, 1.0, speedup=0.83))
    assert view.best == {} and view.headline is None and view.fastest == {"tf32": 1}


def test_of_two_lanes_that_both_called_theirs_the_best_the_faster_stands():
    view = of(started(), proposed(1), proposed(2), judged(2, 0.5), judged(1, 0.7))
    assert view.best == {"tf32": 2}


def test_each_class_has_its_best_and_the_head_shows_the_largest_speedup():
    view = of(
        started(), proposed(1), judged(1, 1.0, speedup=1.2), proposed(2, "f16"), judged(2, 0.9, speedup=1.1, cls="f16")
    )
    assert view.best == {"tf32": 1, "f16": 2} and view.headline.number == 1


# ---- trials ----


def test_the_owners_trials_do_not_count_against_the_budget():
    view = of(started(), proposed(1), judged(1, 1.0), proposed(2, by="owner"), failed(2))
    assert view.used == 1 and len(view.proposed) == 2


def test_a_trial_under_way_is_the_last_without_an_end():
    view = of(started(), proposed(1), proposed(2), judged(2, 1.0))
    assert view.under_way.number == 1 and view.trials[1].outcome == "running"
    assert of(started(), proposed(1), judged(1, 1.0)).under_way is None


@pytest.mark.parametrize(
    ("code", "outcome"), [("wrong_result", "failed"), ("oracle_died", "undecided"), ("stopped", "stopped")]
)
def test_the_outcome_of_a_failed_trial_says_who_ended_it(code, outcome):
    assert of(started(), proposed(1), failed(1, code)).trials[1].outcome == outcome


def test_the_first_end_of_a_trial_stands():
    view = of(started(), proposed(1), failed(1), judged(1, 1.0))
    assert view.trials[1].failed and view.trials[1].judged is None and view.best == {}
    assert [(w.code, w.kind) for w in view.warnings] == [("repeated", "trial.judged")]


# ---- a session ----


def test_the_owner_changes_the_budget_and_pauses():
    view = of(started(), events.Controlled("budget", {"trials": 9}), events.Controlled("pause"))
    assert view.budget == {"trials": 9, "eps": 0.2, "window": 3} and view.state == "paused"


def test_the_end_is_data():
    end = events.SessionEnded(
        "done", "words", {"tf32": 1}, 1, 2.0, "search_over",
        closed=[{"cls": "tf32", "code": "stalled", "best_ms": 1.0, "limit_ms": 0.5, "eps": 0.2, "trials": 3}],
    )  # fmt: skip
    view = of(started(), proposed(1), judged(1, 1.0), end)
    assert (view.state, view.end.code, view.end.closed[0].code) == ("done", "search_over", "stalled")


def test_a_class_that_pytorch_lacks_stands_beside_what_it_was_compared_with():
    ms = events.Prediction(1.0, "t_attainable", "h200")
    view = of(
        started(classes=["tf32", "fp8"]), events.Baseline("eager", "tf32", ms), events.Baseline("eager_f16", "f16", ms),
        proposed(1, "fp8"), events.TrialJudged(1, "clean", "fp8", "predicted", 1.0, 2.0, "eager_f16", 1, 1, True, ""),
    )  # fmt: skip
    assert view.beside("fp8").name == "eager_f16" and view.beside("tf32").name == "eager"
    assert view.beside("bf16") is None and view.all_classes == ["tf32", "fp8", "f16"]


def test_a_time_that_is_taken_again_replaces_the_first():
    first, again = events.Prediction(1.0, "m", "h200"), events.Prediction(0.5, "m", "h200")
    view = of(started(), events.Baseline("eager", "tf32", first), events.Baseline("eager", "tf32", again))
    assert [b.ms for b in view.baselines] == [0.5]


# ---- any log ----


def test_every_kind_of_event_has_a_place():
    assert set(events.KINDS) <= KINDS and DRAWN <= KINDS


def test_an_unknown_kind_and_unknown_fields_change_nothing_but_the_warnings():
    view = fold(rows(("session.started", {"title": "t", "new": 1}), ("asked", {"role": "judge"}), ("asked", {})))
    assert view.title == "t" and [(w.code, w.kind, w.seq, w.count) for w in view.warnings] == [
        ("unknown_kind", "asked", 2, 2)
    ]


def test_events_come_once_and_in_order():
    log = rows(("progress", {"text": "a"}), ("progress", {"text": "b"}), ("progress", {"text": "c"}))
    view = View()
    assert view.apply(**log[0]) and not view.apply(**log[2]) and view.progress.text == "a"
    assert view.apply(**log[0]) and view.seq == 1
    assert fold([log[2], log[0], log[1]]).progress.text == "c" and fold(log, up_to=2).progress.text == "b"


@settings(max_examples=60)
@given(logs())
def test_a_log_may_be_cut_anywhere_and_is_folded_event_by_event(log):
    view = View()
    for i, row in enumerate(log, 1):
        assert view.apply(**row)
        if i % 7 == 0:
            assert plain(view) == plain(fold(log[:i]))
    assert plain(view) == plain(fold(log))
    json.dumps(plain(view), allow_nan=False)
    json.dumps(listing(view), allow_nan=False)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_recordings_fold_to_what_they_say_themselves(path):
    read = recording.read(path)
    view, end = fold(read.rows), read.rows[-1].event
    led_by_agent = read.rows[0].event.strategy == "agent"  # who stops its session when it is out of ideas
    assert view.state == end.state == ("stopped" if led_by_agent else "done") and not view.warnings
    assert len(view.proposed) == end.trials and all(t.ended for t in view.trials.values())
    assert view.used == sum(t.by == "strategy" for t in view.trials.values())
    best = {cls: n for cls, n in end.best.items() if view.trials[n].judged.speedup > 1}
    assert view.best == best and end.best.items() <= view.fastest.items()  # PyTorch stays where nothing is faster


def test_a_list_shows_the_session_as_data():
    view = of(started(), proposed(1), judged(1, 1.0), proposed(2), failed(2))
    row = listing(view)
    assert (row["shape"], row["state"], row["trials"], row["failed"]) == (SHAPE, "running", 2, 1)
    assert row["best"] == row["by_class"]["tf32"] and row["best"]["trial"] == 1 and row["end"] is None
