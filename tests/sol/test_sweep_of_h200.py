"""What the repository says of the attainable model is what the recorded sweep says, and it is good enough to steer."""

import json
from pathlib import Path

import pytest

from sol.attainable import KNOWN_ERROR
from sol.hardware import load
from sol.model.sweep import LEAST, document, judge, total

RESULTS = Path(__file__).resolve().parents[2] / "engine/results"
SWEEP = (RESULTS / "sweep-h200-2026-11-21.json").read_text(encoding="utf-8")
H200 = load("h200")


@pytest.fixture(scope="module")
def judged():
    return judge(SWEEP, H200)


def test_the_report_is_of_the_data():
    assert (RESULTS / "sweep.md").read_text(encoding="utf-8") == document(SWEEP, H200)


def test_the_first_four_hold_a_good_one_for_four_problems_in_five_and_a_time_is_known_to_15_percent(judged):
    assert len(judged) >= 15 and all(len(j.runs) >= LEAST for j in judged)
    for some in (judged, [j for j in judged if j.held_out]):
        summary = total(some)
        assert summary.hits >= 0.80 and summary.error < 0.15


def test_the_error_that_pages_show_is_the_sweeps(judged):
    assert pytest.approx(total(judged).error, abs=0.005) == KNOWN_ERROR


def test_measured_ceilings_are_those_of_the_probe():
    rates = json.loads((RESULTS / "ceilings-h200-2026-11-21.json").read_text(encoding="utf-8"))["rates"]
    assert set(rates) == set(H200.measured)
    for name, rate in rates.items():
        assert H200.measured[name] == pytest.approx(rate, rel=2e-3), name
