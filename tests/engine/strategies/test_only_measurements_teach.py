"""`mucutlass` leaves outcomes of measured trials for other problems, and none of predicted ones."""

from engine.llm.rehearse.player import Player
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.api import Reply
from engine.strategies.mucutlass import memory
from tests.engine.counting import PROGRAM
from tests.engine.session.scripted import Searching, of, problem
from tests.engine.strategies.test_led_by_models import strategy


def rehearsed():
    player = Player()
    return lambda ask, turn: Reply(player.reply(ask.prompt), model="rehearsed")


def test_outcomes_of_other_trials_than_the_measured_ones_are_left_out():
    played = strategy("mucutlass", iterations=2, attempts=1)
    searching = Searching(played, handlers={"ask": rehearsed()}, trials=3)
    log = searching.run()
    ended = [e.trial for e in of(log, events.TrialJudged)]
    trials = [searching.fold.finished(number) for number in ended]
    assert len(trials) >= 2
    assert len(memory.parsed(played.lesson(problem(), trials)).outcomes) == len(trials)
    assert len(memory.parsed(played.lesson(problem(), trials[:1])).outcomes) == 1
    assert played.lesson(problem(), ()) == ""


def test_a_session_on_the_modelled_device_stores_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    monkeypatch.setenv("UCUTLASS_COMPILERS", "none")
    options = {"iterations": 1, "hypotheses": 1, "attempts": 1}
    spec = SessionSpec(
        source=PROGRAM, source_kind="program", device="modelled:h200", strategy="mucutlass", options=options,
        classes=("f16",), trials=1,
    )  # fmt: skip
    log = [e.event for e in run(spec, handlers={"ask": rehearsed()}, local_user=True)]
    assert of(log, events.TrialJudged) and not of(log, events.MemoryWritten)
    assert not list(tmp_path.rglob("mucutlass-*.jsonl"))
