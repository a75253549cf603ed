"""A session's figures from its log: a session recorded on an H200, as the gallery shows it."""

import json
import shutil

import pytest

from playground import figures, recordings
from playground.models import Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def drawn(tmp_path):
    shutil.copy(recordings.FOLDER / "linear_scale_leaky.jsonl", tmp_path)
    recordings.load_all(tmp_path)
    return figures.of(Session.objects.get())


def test_every_figure_has_data_and_the_same_as_a_table(drawn):
    assert set(drawn) == set(figures.NAMES)
    for name, figure in drawn.items():
        assert figure is not None and figure["rows"] and figure["title"], name
        assert json.dumps(figure)


def test_shares_are_of_the_best_trial_as_measured_and_end_in_advice(drawn):
    (bar,) = drawn["shares"]["figure"]["data"]
    assert "measured" in bar["hovertemplate"] and bar["marker"]["opacity"] == 1.0
    assert 50 < max(bar["x"]) < 100 and drawn["shares"]["title"].endswith(".")


def test_the_waterfall_ends_at_the_predicted_time(drawn):
    total = sum(r["ms"] for r in drawn["breakdown"]["rows"])
    assert drawn["waterfall"]["rows"][-1]["ends"] == pytest.approx(total, abs=1e-4)


def test_levers_stand_beside_what_came_of_them(drawn):
    rows = {(r["lever"].split()[0], r["class"]): r for r in drawn["levers"]["rows"]}
    fuse = next(r for (first, _), r in rows.items() if first == "Fuse")
    assert fuse["observed"] and fuse["trial"] and fuse["against"]


def test_a_session_without_a_log_has_no_figures():
    session = Session.objects.create(title="new", spec={})
    assert figures.of(session) == figures.EMPTY
