"""`seconds` of `ucutlass.optimize`: no trial begins after them, and what is under way has a quarter of them to end."""

from types import SimpleNamespace

import pytest
from ucutlass import search

from engine.session import events

PROPOSED = events.TrialProposed(1, "tf32", "", "cute", "", "")
JUDGED = events.TrialJudged(1, "clean", "tf32", "measured", 1.0, 2.0, "eager", 1.5, 0.5, True, "")


@pytest.fixture
def at(monkeypatch):
    """Set the clock's seconds since the search began."""
    now = [0.0]
    monkeypatch.setattr(search.time, "monotonic", lambda: now[0])

    def seconds(value):
        now[0] = value

    return seconds


def clock(*log):
    return search.Clock(100, SimpleNamespace(rows=[(i, 0.0, e) for i, e in enumerate(log, 1)]))


def test_a_search_with_a_time_begins_no_trial_and_stops_a_quarter_later(at):
    session = clock(PROPOSED, JUDGED, PROPOSED)
    at(99)
    assert session.commands() == [] and not session.ended
    at(100)
    assert session.commands() == [("budget", {"trials": 2})] and session.ended
    at(124)
    assert session.commands() == []
    at(125)
    assert session.commands() == [("stop", {})] and session.commands() == []


def test_a_search_without_a_time_stops_at_once(at):
    session = clock(PROPOSED)
    at(100)
    assert session.commands() == [("stop", {})] and session.ended
    assert session.commands() == []


def test_an_owner_who_was_away_for_long_stops_it(at):
    session = clock(PROPOSED, JUDGED)
    at(1000)
    assert session.commands() == [("stop", {})]
