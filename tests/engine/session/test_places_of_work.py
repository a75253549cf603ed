"""Work that lost its place with the worker runs again elsewhere, a session waits for its part of the GPU's memory, and
a stop ends both kinds of waiting."""

import threading
import time
from contextlib import contextmanager

import pytest

from engine.executors import Lost, Share
from engine.executors.local import Local
from engine.executors.room import Room
from engine.session import events
from engine.session import runner as sessions
from engine.session.journal import Journal
from engine.session.owner import Owner
from engine.session.script.lanes import MOST_LOST, Lanes
from tests.engine.counting import CountingDevice, spec


class Losing(Local):
    """Loses the place of the first `many` pieces of work when they end."""

    def __init__(self, many: int):
        super().__init__(1)
        self.many = many

    @contextmanager
    def hold(self, turn, cancelled=lambda: False):
        with super().hold(turn, cancelled):
            yield turn
        if self.many:
            self.many -= 1
            raise Lost


def called(many: int) -> tuple[list, object]:
    calls: list[int] = []
    journal = Journal((), lambda name: "", time.time)
    lanes = Lanes(Owner(spec(), journal, tuple), Losing(many), Share(session="a"))
    steps = lanes.call(lambda: calls.append(1) or len(calls), "core", "prepare")
    try:
        while True:
            next(steps)
    except StopIteration as e:
        return calls, e.value
    finally:
        lanes.close()


def test_work_that_lost_its_place_runs_again():
    calls, value = called(2)
    assert len(calls) == value == 3


def test_work_that_loses_every_place_fails():
    with pytest.raises(Lost):
        called(MOST_LOST + 1)


class OnAGpu(CountingDevice):
    """A device whose sessions share a GPU's memory."""

    def __init__(self, room: Room):
        super().__init__()
        self.room, self.part = room, room.part(6)

    def admit(self, problem) -> str:
        return "" if self.part.enter() else "it takes 6 GB, and 4 GB are free"

    def close(self):
        super().close()
        self.part.leave()


def play(device, out: list, control=tuple):
    session = sessions.run(spec(), device=device, control=control, teaches=False)
    out.extend(emitted.event for emitted in session)


def waiting(log: list) -> bool:
    return any(isinstance(e, events.Progress) and "Waiting for the GPU's memory: it takes 6 GB" in e.text for e in log)


def until(condition) -> None:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_session_waits_for_its_part_of_the_gpus_memory_and_says_so():
    room, log = Room(10), []
    other = room.part(6)
    assert other.enter()
    device = OnAGpu(room)
    thread = threading.Thread(target=play, args=(device, log))
    thread.start()
    until(lambda: waiting(log))
    time.sleep(0.1)
    assert waiting(log) and not device.open_now and not device.asked
    other.leave()
    thread.join(60)
    ended = log[-1]
    assert ended.state == "done" and ended.spent["wait_memory"] > 0 and room.free() == 10
    assert any(isinstance(e, events.Progress) and e.step == "place" for e in log)


def test_a_stop_ends_the_waiting_and_leaves_the_line():
    room, log = Room(10), []
    other = room.part(6)
    assert other.enter()
    commands: list = []
    device = OnAGpu(room)
    thread = threading.Thread(target=play, args=(device, log, lambda: [commands.pop()] if commands else []))
    thread.start()
    until(lambda: waiting(log))
    began = time.monotonic()
    commands.append(("stop", {}))
    thread.join(60)
    assert log[-1].state == "stopped" and time.monotonic() - began < 30
    assert not device.asked
    other.leave()
    assert room.free() == 10


def test_the_log_says_again_how_much_is_before_it_when_it_is_less(monkeypatch):
    for name in ("WORTH_SAYING", "SAID_AGAIN"):
        monkeypatch.setattr(f"engine.session.script.lanes.{name}", 0.1)
    executor = Local(1)
    ends = [threading.Event() for _ in range(2)]

    turns = [executor.turn("gpu", Share(session=f"other {n}")) for n, _ in enumerate(ends)]

    def use(turn, end: threading.Event) -> None:
        with executor.hold(turn):
            end.wait(60)

    for turn, end in zip(turns, ends, strict=True):
        threading.Thread(target=use, args=(turn, end), daemon=True).start()
    until(lambda: not turns[0].waiting)
    journal = Journal((), lambda name: "", time.time)
    lanes = Lanes(Owner(spec(), journal, tuple), executor, Share(session="a"))
    texts = []
    for emitted in lanes.call(lambda: 1, "gpu", "time"):
        texts.append(emitted.event.text)
        if len(texts) <= len(ends):
            ends[len(texts) - 1].set()
    lanes.close()
    assert "2 pieces of work before it" in texts[0] and "1 piece of work before it" in texts[1], texts
