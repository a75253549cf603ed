"""A session's log, cut after any of its events, is gone on with as if no engine had been lost.

Random scripts (tests/engine/session/random_scripts.py) run on a device with three lanes, while the owner tries kernels
and programs, changes the budget and pauses. Each log is cut after every event and played again from there. The
remainder is the same when

- the script asks for the same verbs, is given the same answers and, at each Advanced, the same state;
- the log has the same events between each two Advanced, each as often: trials with the same numbers, paths, digests,
  programs, steps and ends, quick times, answers, the owner's words; and each trial's steps are in the same order;
- every blob that an event names comes with it or before it, and the search ends with the same code for the same reason;
- no step of the device whose end is in the log is asked of it again, and no other more than once.

Three things may differ. Members of a Together and the owner's trials beside them run at once, so the order of their
events is free, and with it whether an owner's trial is `the best so far`: that is held against the order of its own
log. A turn that was under way at the cut is asked once more, with attempt 2. Progress, the line for a person, and
seconds are not compared.

`make test` draws 40 logs; to draw 2,000, which takes about a quarter of an hour:

    CUT_LOGS=2000 .venv/bin/python -m pytest tests/engine/session/test_cut_logs.py

CUT_SEED=n draws from seed n on, so that one failure can be played alone.
"""

import os
from collections.abc import Callable
from functools import cache

import pytest

from engine.session import events, trial
from engine.session.script import lanes
from engine.session.script.search import StrategyChanged
from engine.strategies import problem
from engine.strategies.problem import Prepared
from tests.engine.session.random_scripts import ENDS, Life, Plan, Row, bests, live, plan, reread, row, stretches

LOGS = int(os.environ.get("CUT_LOGS", "40"))
FIRST = int(os.environ.get("CUT_SEED", "0"))
BATCHES = 10
ONCE = (events.TrialCompiled, events.TrialValidated, events.TrialMeasured)
NOT_AGAIN = {  # what the log holds of a trial -> steps of the device that are over
    events.TrialValidated: ("validate",),
    events.TrialMeasured: ("compile", "validate", "measure"),
    **dict.fromkeys(ENDS, ("compile", "validate", "measure")),
}


@pytest.fixture(scope="module", autouse=True)
def quick():
    """A handful of programs is compiled again and again: the compiler's answers are kept, and nobody waits long."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (trial, problem):
            patch.setattr(module, "check", cache(module.check))
        for name in ("generate", "resolve", "seen"):
            patch.setattr(trial, name, by_identity(getattr(trial, name)))
        for name in ("region", "bind", "algebraic"):
            patch.setattr(Prepared, name, by_text(getattr(Prepared, name)))
        patch.setattr(lanes, "POLL", 0.005)
        yield


def by_identity(function: Callable) -> Callable:
    """A function whose answers are kept by the first argument, which lives on with them."""
    answers: dict[int, tuple] = {}

    def identity(first, *others):
        if id(first) not in answers:
            answers[id(first)] = (first, function(first, *others))
        return answers[id(first)][1]

    return identity


def by_text(method: Callable) -> Callable:
    """A method of the one problem of this file, whose answers are kept by the program's text."""
    answers: dict[tuple, object] = {}

    def pick(self, *texts):
        if texts not in answers:
            answers[texts] = method(self, *texts)
        return answers[texts]

    return pick


def play_from(cut: int, drawn: Plan, whole: Life) -> Life:
    """Another engine's life, from the first `cut` events of a whole log on."""
    past = whole.log[:cut]
    commands = sum(isinstance(e, events.Controlled) for e in past)
    return live(drawn, past, whole.blobs[:cut], whole.spoken[commands:])


def differences(cut: int, whole: Life, again: Life, rows: dict[int, Row]) -> str:
    """What is not the same in the second life, in words; "" where nothing. `rows`: of the whole log's events."""
    if again.turns != whole.turns:
        place = next((i for i, (a, b) in enumerate(zip(again.turns, whole.turns, strict=False)) if a != b), -1)
        return f"the script was given something else at {place}: {again.turns[place]} for {whole.turns[place]}"
    log, extra = again.log, attempts(whole.log[:cut])
    if [e for e in log if isinstance(e, events.Asked) and e.attempt > 1] != extra:
        return "a turn was asked again"
    log = [e for e in log if not (isinstance(e, events.Asked) and e.attempt > 1)]
    parts, right = stretches(log, rows), stretches(whole.log, rows)
    for number, (a, b) in enumerate(zip(parts, right, strict=False)):
        if a != b:
            return f"after Advanced {number - 1}: {[r for r in a[0] if r not in b[0]]} for " + (
                f"{[r for r in b[0] if r not in a[0]]}; steps {a[1]} for {b[1]}"
            )
    if again.ending != whole.ending or len(parts) != len(right):
        return f"it ended otherwise: {again.ending} for {whole.ending}"
    return twice(cut, again) or unnamed(again, whole.blobs[:cut])


def attempts(past: list[events.Event]) -> list[events.Asked]:
    """The second attempts at the turns that the log leaves open."""
    answered = {e.path for e in past if isinstance(e, events.Answered)}
    open_turns = [e for e in past if isinstance(e, events.Asked) and e.path not in answered]
    return [events.Asked(e.path, e.digest, e.verb, e.role, e.prompt, 2) for e in open_turns]


def twice(cut: int, again: Life) -> str:
    """What the device was asked for again although the log holds its end."""
    over = {(step, e.trial) for e in again.log[:cut] for step in NOT_AGAIN.get(type(e), ())}
    more = {asked: times for asked, times in again.asked.items() if times > (asked not in over)}
    return f"asked again of the device: {more}" if more else ""


def unnamed(life: Life, before: list) -> str:
    """The blobs that an event of this life names and that are nowhere."""
    names = {name for some in (*before, *life.blobs) for name in some}
    wanted = {e.program for e in life.log if isinstance(e, events.TrialProposed)}
    wanted |= {e.data["program"] for e in life.log if isinstance(e, events.Controlled) and e.action == "try"}
    return f"blobs without a text: {wanted - names}" if wanted - names else ""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_log_cut_after_any_event_has_the_same_remainder(batch):
    for seed in range(FIRST + batch, FIRST + LOGS, BATCHES):
        drawn = plan(seed)
        whole = live(drawn)
        whole.log = reread(whole.log)  # as the next engine reads it
        own = {e.trial for e in whole.log if isinstance(e, events.TrialProposed) and e.by == "owner"}
        rows = {id(e): row(e, own) for e in whole.log}
        for cut in range(len(whole.log) + 1):
            try:
                again = play_from(cut, drawn, whole)
                wrong = differences(cut, whole, again, rows)
            except StrategyChanged as e:
                wrong = str(e)
            assert not wrong, f"CUT_SEED={seed} CUT_LOGS=1, cut after {cut} of {len(whole.log)} events: {wrong}"
            assert all(best == fastest for _, best, fastest in bests(again.log))
