"""Where a device times quickly, candidates are chosen by a few calls each: a hint that no reader takes for a result."""

import json

from engine.devices import Problem
from engine.session import events
from engine.session.runner import run
from engine.strategies.api import Finished, State
from engine.strategies.planner.memory import Memory
from sol.hardware import load
from tests.engine.counting import PROGRAM, CountingDevice, spec
from tests.engine.planning import planned

OPEN = PROGRAM.replace("tile 128x128x64  ", "")


class Quick(CountingDevice):
    """Measures, as far as a session can tell, and answers quick times in an order of its own."""

    kind = "measured"
    screens = True

    def __init__(self, broken=()):
        super().__init__()
        self.screened, self.broken = [], broken

    def quick(self, candidates, baseline):
        assert self.open_now and baseline.cls == "f16"
        self.screened += [c.text for c in candidates]
        numbers = range(len(self.screened) - len(candidates), len(self.screened))
        return [None if n in self.broken else 1.0 / (n + 1) for n in numbers]


def play(device, history=(), blobs=None, trials=6):
    task = spec(source=OPEN, trials=trials)
    emitted = list(run(task, device=device, history=history, read_blob=(blobs or {}).__getitem__))
    return [e.event for e in emitted], {k: v for e in emitted for k, v in e.blobs.items()}


def strategy():
    return planned(Problem(OPEN, "program", None), ("f16",), load("h200"), "measured", memory=Memory())


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


def test_seeds_are_timed_once_after_the_first_result_and_the_better_half_is_tried():
    device = Quick()
    log, blobs = play(device)
    (screened,) = of(log, events.Screened)
    assert screened.trial == 2 and len(screened.quick) == len(device.screened) > 2
    fastest = sorted(screened.quick, key=lambda name: screened.quick[name])
    tried = [e.program for e in of(log, events.TrialProposed)][1:]
    seeds = [name for name in tried if name in screened.quick]
    assert seeds == fastest[: len(seeds)] and len(seeds) >= len(fastest) // 2
    assert all(name in blobs for name in fastest)


def test_a_quick_time_is_nobodys_result():
    log, _ = play(Quick())
    quick = {ms for e in of(log, events.Screened) for ms in e.quick.values()}
    for e in of(log, events.TrialMeasured):
        assert e.time.ms not in quick
    assert len(of(log, events.TrialValidated)) == len(of(log, events.TrialJudged)) == 6  # each one in full


def test_what_does_not_run_is_no_candidate():
    log, _ = play(Quick(broken=(0, 1, 2)), trials=5)
    (screened,) = of(log, events.Screened)
    failed = {name for name, ms in screened.quick.items() if ms is None}
    tried = [e.program for e in of(log, events.TrialProposed)][1:4]
    assert len(failed) == 3 and not failed.intersection(tried)


def test_the_models_first_choice_is_tried_even_if_its_quick_time_failed():
    line = strategy().all[0]
    first, *others = [line.text(step) for step in line.seeds(2)]
    times = {first: None} | {text: 1.0 + i for i, text in enumerate(others)}
    texts = [line.text(step) for step in line.plan(times) if step.ranked is not None]
    assert texts[0] == first and texts[1:] == others[: -(-len(others) // 2)]
    assert first not in [line.text(s) for s in line.plan(times | {first: 99.0}) if s.ranked is not None]


def test_a_session_taken_up_again_does_not_time_again():
    log, blobs = play(Quick())
    cut = next(i for i, e in enumerate(log) if isinstance(e, events.TrialJudged) and e.trial == 3)
    device = Quick()
    again, _ = play(device, history=list(enumerate(log[: cut + 1], 1)), blobs=blobs)
    assert device.screened == []
    assert [e.program for e in of(log, events.TrialProposed)][3:] == [
        e.program for e in of(again, events.TrialProposed)
    ]


def test_a_device_that_predicts_is_asked_for_nothing():
    class Predicts(Quick):
        kind = "predicted"

    device = Predicts()
    log, _ = play(device)
    assert device.screened == [] and not of(log, events.Screened)


def test_quick_times_survive_the_log():
    event = events.Screened(2, {"a" * 64: 0.5, "b" * 64: None}, 1.0)
    assert events.decode("screened", json.loads(json.dumps(events.encode(event)))) == event


def test_screening_is_asked_for_once_a_line():
    planner = strategy()
    first = planner.next(State())
    assert planner.screen(State()) == []
    state = State((Finished(1, first.text, "f16", "cute", ms=1.0),))
    asked = planner.screen(state)
    assert len(asked) == 8
    assert planner.screen(State(state.trials, quick=dict.fromkeys((p.text for p in asked), 1.0))) == []
