"""Who gets a place next: whoever used it least, then the oldest; a GPU has one user, and a core no user for ever."""

import threading
import time

import pytest

from engine.executors import Cancelled, Share, loading
from engine.executors import local as here
from engine.executors.local import Local
from engine.executors.places import Line


def share(address: str, session: str = "", since: float = 0.0, room: str = "") -> Share:
    return Share(room, address, session or address, since)


class Queue:
    """Pieces of work that wait for a line; `order`: the names of those that got the place."""

    def __init__(self, line: Line, seconds: float = 0.0):
        self.line, self.seconds, self.order = line, seconds, []
        self.threads: list[threading.Thread] = []

    def add(self, name: str, of: Share) -> None:
        turn = self.line.turn(of)

        def work() -> None:
            with self.line.hold(turn):
                self.order.append(name)
                time.sleep(self.seconds)

        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def end(self) -> list[str]:
        for thread in self.threads:
            thread.join(60)
        return self.order


def held_open(line: Line, of: Share, release: threading.Event) -> threading.Thread:
    entered = threading.Event()

    def work() -> None:
        with line.hold(line.turn(of)):
            entered.set()
            release.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(60)
    return thread


def test_a_place_has_one_user_at_a_time():
    line, inside, most = Line("gpu0", 1), [], []

    def work(number: int) -> None:
        with line.hold(line.turn(share(str(number)))):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.01)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 8


def test_the_address_that_used_the_place_least_is_next_and_then_the_older_session():
    line, release = Line("gpu0", 1), threading.Event()
    first = held_open(line, share("busy"), release)
    time.sleep(0.05)  # that address has used the place now
    queue = Queue(line)
    queue.add("busy again", share("busy"))
    queue.add("young", share("a", since=2.0))
    queue.add("old", share("b", since=1.0))
    time.sleep(0.1)
    release.set()
    first.join(60)
    assert queue.end() == ["old", "young", "busy again"]


def test_a_room_of_many_seats_counts_as_one():
    line, release = Line("gpu0", 1), threading.Event()
    first = held_open(line, share("seat 1", room="class"), release)
    time.sleep(0.05)
    queue = Queue(line)
    queue.add("seat 2", share("seat 2", room="class"))
    queue.add("alone", share("somebody", since=9.0))
    time.sleep(0.1)
    release.set()
    first.join(60)
    assert queue.end() == ["alone", "seat 2"]


def test_work_that_never_ends_no_longer_counts_after_a_while():
    line, release = Line("core", 1, patience=0.2), threading.Event()
    loops = held_open(line, share("loops"), release)
    queue, began = Queue(line), time.monotonic()
    queue.add("honest", share("a"))
    assert queue.end() == ["honest"] and 0.1 < time.monotonic() - began < 50
    release.set()
    loops.join(60)


def test_waiting_work_can_be_cancelled_and_leaves_the_line():
    line, release, stop = Line("gpu0", 1), threading.Event(), threading.Event()
    first = held_open(line, share("a"), release)
    turn = line.turn(share("b"))
    assert turn.ahead() == 1 and turn.waiting
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Cancelled), line.hold(turn, stop.is_set):
        pass
    release.set()
    first.join(60)
    assert line.busy() == 0
    with line.hold(line.turn(share("c"))) as later:
        assert not later.waiting and later.ahead() == 0


def test_a_failure_gives_the_place_back():
    executor = Local(cores=1)
    with pytest.raises(ValueError), executor.hold(executor.turn("gpu0", share("a"))):
        raise ValueError
    with executor.hold(executor.turn("gpu0", share("a"))) as turn:
        assert turn.waited < 30


def test_one_session_opens_a_gpu_at_a_time_and_another_gpu_has_a_place_of_its_own():
    local, inside, most = Local(8), [], []
    lock = threading.Lock()

    def opens(place: str) -> None:
        with local.hold(local.turn(loading(place), share(threading.current_thread().name))):
            with lock:
                inside.append(place)
                most.append((inside.count("gpu0"), inside.count("gpu1")))
            time.sleep(0.1)
            with lock:
                inside.remove(place)

    threads = [threading.Thread(target=opens, args=(f"gpu{i % 2}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert max(first for first, _ in most) == 1 and max(second for _, second in most) == 1
    assert (1, 1) in most, "they do not wait for each other"


def test_modules_start_on_a_quarter_of_what_the_cores_are_worth(monkeypatch):
    monkeypatch.setattr(here, "cores_here", lambda: 16)
    for worth, starts in ((None, 4), (16, 4), (9, 2), (1, 1)):
        monkeypatch.setattr(here, "worth", lambda worth=worth: worth)
        lines = here.Local()._lines
        assert (lines["core"].places, lines["report"].places, lines["build"].places) == (starts, starts, 16)
