"""An agent's report says what the page says above a session: what there is to know of the module."""

from dataclasses import asdict

from engine.session import events
from engine.session.fold.reduce import View
from playground.mcp.starting import notes


def view(*log) -> View:
    folded = View()
    for seq, event in enumerate(log, 1):
        assert folded.apply(seq, event.KIND, float(seq), asdict(event))
    return folded


def traced(note: str) -> events.Traced:
    return events.Traced("0" * 64, 3, 0.1, "Two layers", note)


def test_the_module_comes_first():
    seen = view(traced("Its dropout is off."), events.Noted("no_program", "No program covers it."))
    assert notes(seen) == ["Its dropout is off.", "No program covers it."]


def test_where_there_is_nothing_to_know_nothing_is_said():
    assert notes(view(traced(""), events.Noted("start_from", "A program of the module"))) == []
