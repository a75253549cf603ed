"""A session's figures from its log: a session recorded on an H200, as the gallery shows it."""

import json
import shutil

import pytest

from engine.session import events
from playground import figures, recordings
from playground.live import log
from playground.models import Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(tmp_path):
    shutil.copy(recordings.FOLDER / "linear_scale_leaky.jsonl", tmp_path)
    recordings.load_all(tmp_path)
    return Session.objects.get()


@pytest.fixture
def drawn(session):
    return figures.of(session)


def test_every_figure_has_data_and_the_same_as_a_table(drawn):
    assert set(drawn) == set(figures.NAMES)
    for name, figure in drawn.items():
        assert figure is not None and figure["rows"] and figure["title"] and figure["caption"], name
        assert json.dumps(figure, allow_nan=False)


def test_the_history_is_the_searchs(drawn):
    rows = drawn["history"]["rows"]
    assert len(rows) == 12 and all(r["over"].startswith("PyTorch eager (") for r in rows)
    assert "within 25% of the limit" in drawn["history"]["caption"]


def test_shares_are_of_the_best_trial_as_measured_and_end_in_advice(drawn):
    (bar,) = drawn["shares"]["figure"]["data"]
    assert "measured" in bar["hovertemplate"] and bar["marker"]["opacity"] == 1.0
    assert 50 < max(bar["x"]) < 100 and drawn["shares"]["caption"].endswith(".")


def test_the_waterfall_ends_at_the_predicted_time(drawn):
    total = sum(r["ms"] for r in drawn["stages"]["rows"])
    assert drawn["waterfall"]["rows"][-1]["ends"] == pytest.approx(total, abs=1e-4)


def test_levers_stand_beside_what_came_of_them(drawn):
    rows = {(r["lever"].split()[0], r["class"]): r for r in drawn["levers"]["rows"]}
    fuse = next(r for (first, _), r in rows.items() if first == "Fuse")
    assert fuse["observed"] and fuse["trial"] and fuse["against"]


def test_a_replay_shows_the_figures_as_they_were(session, drawn):
    judged = [e.seq for e in session.events.filter(kind="trial.judged")]
    half = figures.of(session, seq=judged[3])
    assert len(half["history"]["rows"]) == 4 and len(drawn["history"]["rows"]) == 12
    assert figures.of(session, seq=judged[0] - 1)["history"] is None
    assert figures.of(session, seq=10**6) == drawn


def test_a_session_without_a_log_has_no_figures():
    session = Session.objects.create(title="new", spec={})
    assert figures.of(session) == dict.fromkeys(figures.NAMES)


def test_the_api_gives_those_that_are_asked_for(session, client):
    figures = client.get(f"/api/figures/{session.id}?names=history,roofline&seq=40").json()
    assert list(figures) == ["history", "roofline"]
    refused = client.get(f"/api/figures/{session.id}?names=pie")
    assert refused.status_code == 422 and "roofline" in refused.json()["fix"]


def of_a_region(part):
    """A session on a module in two regions with one trial, whose program is the second."""
    session = Session.objects.create(title="in regions", spec={})
    region = {"words": "linear", "ops": [], "inputs": [], "outputs": [], "lines": [], "share": {}}
    stage = {"name": "y", "kind": "gemm", "ms": 0.2, "bound_by": "tensor", "parts": {"main": 0.2}}
    ms = events.Prediction(1.0, "t_attainable", "h200")
    items = [
        events.SessionStarted("t", "a" * 64, "module", {"hardware": "h200"}, "planner", ["tf32"], {}, 0),
        events.Reported("b" * 64, {"tf32": 0.7}, ""),
        events.Covered([{**region, "number": n, "limits": {"tf32": 0.1 * n}} for n in (1, 2)], [], {}, "covered"),
        events.Baseline("eager_tf32", "tf32", events.Prediction(2.0, "t_attainable", "h200")),
        events.TrialProposed(1, "tf32", "d" * 64, "cute", "", ""),
        events.TrialChecked(1, "c" * 64, 0.0, [stage], []),
        events.TrialMeasured(1, ms, "eager_tf32", 2.0, 2.0, part=part),
        events.TrialJudged(1, "clean", "tf32", "predicted", 1.0, 2.0, "eager_tf32", 1.4, 0.5, True, "1 ms"),
    ]
    log.write(session, [(e, {}, 1.0) for e in items])
    (line,) = figures.of(session)["waterfall"]["figure"]["layout"]["shapes"]
    return line["x0"], figures.of(session)["waterfall"]["caption"]


def test_a_regions_stages_are_drawn_beside_the_regions_limit_and_the_modules_beside_the_modules():
    assert of_a_region({"region": 2, "region_ms": 0.2, "programs": 1, "covered_ms": 0.2}) == (
        0.2, "Time by stage, end to end (predicted): region 2, beside its own limit.",
    )  # fmt: skip
    assert of_a_region({}) == (0.7, "Time by stage, end to end (predicted).")
