"""A session cut off after any of its events goes on as if nothing had happened."""

import dataclasses

import pytest

from engine.session import events
from engine.session.runner import run
from tests.engine.counting import PROGRAM, CountingDevice, spec

MINE = PROGRAM.replace("128x128x64", "64x64x64")


def words(*commands):
    """The owner's words, each told once: at the n-th time the engine listens."""
    waiting = list(commands)
    listened = iter(range(10**9))

    def control():
        n = next(listened)
        now = [w for at, w in waiting if at <= n]
        waiting[:] = [(at, w) for at, w in waiting if at > n]
        return now

    return control


def whole(control=tuple, device=None):
    emitted = list(run(spec(trials=3), device=device or CountingDevice(), control=control))
    blobs = {k: v for e in emitted for k, v in e.blobs.items()}
    return [e.event for e in emitted], blobs


def timeless(log):
    """The log without what must differ: seconds, and the word that it was taken up again."""
    out = []
    for e in log:
        if not isinstance(e, events.Resumed):
            e = dataclasses.replace(e, spent={}) if isinstance(e, events.SessionEnded) else e
            out.append(dataclasses.replace(e, seconds=0.0) if hasattr(e, "seconds") else e)
    return out


def resume(log, blobs, cut, device):
    history = [(i + 1, e) for i, e in enumerate(log[:cut])]
    emitted = list(run(spec(trials=3), device=device, history=history, read_blob=blobs.__getitem__))
    return [e.event for e in emitted]


FULL, BLOBS = whole()


@pytest.mark.parametrize("cut", range(len(FULL) + 1))
def test_cut_after_any_event_the_log_ends_up_the_same(cut):
    device = CountingDevice()
    rest = resume(FULL, BLOBS, cut, device)
    assert timeless(FULL[:cut] + rest) == timeless(FULL)
    assert sum(isinstance(e, events.Resumed) for e in rest) == (0 < cut < len(FULL))
    assert max(device.asked.values(), default=0) <= 1
    assert not device.open_now


@pytest.mark.parametrize("cut", range(1, len(FULL)))
def test_no_finished_step_that_costs_device_time_is_done_again(cut):
    device = CountingDevice()
    resume(FULL, BLOBS, cut, device)
    for e in FULL[:cut]:
        if isinstance(e, events.TrialMeasured):
            assert device.asked["compile", e.trial] == device.asked["measure", e.trial] == 0
        if isinstance(e, events.TrialValidated):
            assert device.asked["validate", e.trial] == 0


def test_a_session_that_is_taken_up_tells_its_whole_length():
    history = [(i + 1, e) for i, e in enumerate(FULL[:-1])]
    stream = run(
        spec(trials=3), device=CountingDevice(), history=history, read_blob=BLOBS.__getitem__, now=lambda: 1000.0,
        began=700.0,
    )  # fmt: skip
    ended = [e.event for e in stream][-1]
    assert 300 <= ended.seconds < 330


def test_an_ended_session_stays_as_it_is():
    assert resume(FULL, BLOBS, len(FULL), CountingDevice()) == []


def test_the_owners_words_are_remembered_from_the_log():
    log, blobs = whole(words((3, ("try", {"program": MINE})), (4, ("budget", {"trials": 2}))))
    assert log[-1].trials == 3  # two by the strategy and one by the owner
    for cut in range(1 + max(i for i, e in enumerate(log) if isinstance(e, events.Controlled)), len(log)):
        rest = resume(log, blobs, cut, CountingDevice())
        assert timeless(log[:cut] + rest) == timeless(log), cut


def test_a_word_of_stop_in_the_log_stops_the_session_that_is_taken_up():
    at = next(i for i, e in enumerate(FULL) if isinstance(e, events.TrialCompiled))
    log = [*FULL[: at + 1], events.Controlled("stop")]
    device = CountingDevice()
    rest = resume(log, BLOBS, len(log), device)
    assert rest[-1].state == "stopped"
    assert [e.code for e in rest if isinstance(e, events.TrialFailed)] in ([], ["stopped"])
    assert not device.asked


def test_failed_trials_are_not_tried_again():
    log, blobs = whole(device=CountingDevice(fail={1: "compile", 2: "validate"}))
    for cut in range(1, len(log)):
        device = CountingDevice(fail={1: "compile", 2: "validate"})
        assert timeless(log[:cut] + resume(log, blobs, cut, device)) == timeless(log), cut


def test_a_stretch_of_log_that_lost_its_engine_many_times_is_still_one_session():
    log, blobs = [], {}
    for _ in range(200):
        history = [(i + 1, e) for i, e in enumerate(log)]
        stream = run(spec(trials=3), device=CountingDevice(), history=history, read_blob=blobs.__getitem__)
        fresh = []
        for emitted in stream:
            fresh.append(emitted.event)
            blobs.update(emitted.blobs)
            if len(fresh) == 3:
                stream.close()
        log += fresh
        if log and isinstance(log[-1], events.SessionEnded):
            break
    assert timeless(log) == timeless(FULL)
