"""Several builds at once: the one that is waited for goes first, a cancelled one stops, equal ones are one."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dsl.lower import Source
from engine.build import pool as pools
from engine.build.cache import Cache
from engine.build.cute import Built
from engine.build.limited import BuildError
from engine.build.pool import BuildPool, default_size


def source(name: str) -> Source:
    return Source("cute", "python", name, name, name, ())


@dataclass
class FakeBuilds:
    """Stands for the compilers: notes the order, holds every build until `gate` opens."""

    order: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    running: int = 0
    most: int = 0

    def build(self, source, *, cancelled, share=None):
        self.order.append(source.text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            while not self.gate.wait(0.01):
                if cancelled():
                    raise BuildError("cancelled", "stopped")
            if source.text == "bad":
                raise ValueError("no such thing")
        finally:
            self.running -= 1
        return Built(Path(source.text), 0.1, False, ())


@pytest.fixture
def builds(monkeypatch):
    fake = FakeBuilds()

    class Builder:
        def __init__(self, cache):
            self.build = fake.build

        def warm(self, cancelled):
            pass

        def close(self):
            pass

    monkeypatch.setattr(pools, "CuteBuilder", Builder)
    monkeypatch.setattr(pools, "lookup", lambda source, cache: None)
    return fake


@pytest.fixture
def pool(builds, tmp_path):
    build_pool = BuildPool(Cache(tmp_path), size=1)
    yield build_pool
    build_pool.close()


def until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_one_that_is_waited_for_goes_before_the_others(pool, builds):
    jobs = {name: pool.submit(source(name)) for name in "abcd"}
    until(lambda: builds.order == ["a"])
    waiter = threading.Thread(target=jobs["d"].result)
    waiter.start()
    until(lambda: pool._queue[0][2] is jobs["d"])
    builds.gate.set()
    waiter.join()
    assert jobs["c"].result().path == Path("c")
    assert builds.order == ["a", "d", "c", "b"] or builds.order == ["a", "d", "b", "c"]


def test_equal_sources_share_one_build(pool, builds):
    job = pool.submit(source("a"))
    assert pool.submit(source("a")) is job
    builds.gate.set()
    job.result()
    assert builds.order.count("a") == 1


def test_a_queued_build_can_be_taken_out(pool, builds):
    first, second = pool.submit(source("a")), pool.submit(source("b"))
    until(lambda: builds.order == ["a"])
    second.cancel()
    with pytest.raises(BuildError) as caught:
        second.result()
    assert caught.value.code == "cancelled"
    builds.gate.set()
    first.result()
    assert builds.order == ["a"]


def test_a_running_build_can_be_stopped(pool, builds):
    job = pool.submit(source("a"))
    until(lambda: builds.order == ["a"])
    with pytest.raises(BuildError) as caught:
        job.result(cancelled=lambda: True)
    assert caught.value.code == "cancelled"


def test_a_failure_is_told_and_the_thread_lives(pool, builds):
    builds.gate.set()
    with pytest.raises(BuildError, match="no such thing"):
        pool.build(source("bad"))
    assert pool.build(source("good")).path == Path("good")


def test_as_many_at_once_as_the_pool_is_wide(builds, tmp_path):
    wide = BuildPool(Cache(tmp_path), size=3)
    jobs = [wide.submit(source(str(i)), priority=-1) for i in range(6)]
    until(lambda: builds.running == 3)
    builds.gate.set()
    for job in jobs:
        job.result()
    wide.close()
    assert builds.most == 3


def test_builds_that_nobody_waits_for_leave_a_third_of_the_workers(builds, tmp_path):
    wide = BuildPool(Cache(tmp_path), size=3)
    try:
        ahead = [wide.submit(source(name), priority=10) for name in "abc"]
        until(lambda: builds.running == 2)
        waited = threading.Thread(target=wide.build, args=(source("now"),))
        waited.start()
        until(lambda: "now" in builds.order)
        assert builds.running == 3 and "c" not in builds.order
        one = threading.Thread(target=ahead[0].result)  # from now on somebody waits for it, so another may begin
        one.start()
        builds.gate.set()
        waited.join()
        one.join()
        assert ahead[2].result().path == Path("c")
    finally:
        builds.gate.set()
        wide.close()


def test_a_build_ends_once_all_who_asked_for_it_left(pool, builds):
    first, second = pool.submit(source("a"), priority=10), pool.submit(source("a"), priority=10)
    until(lambda: builds.order == ["a"])
    first.leave()
    time.sleep(0.05)
    assert not second.done
    second.leave()
    until(lambda: second.done)
    builds.gate.set()
    assert pool.build(source("a")).path == Path("a")  # a new one, not that which was stopped


def test_a_build_that_somebody_waits_for_is_not_left(pool, builds):
    job = pool.submit(source("a"), priority=10)
    until(lambda: builds.order == ["a"])
    waiter = threading.Thread(target=job.result)
    waiter.start()
    until(lambda: not job.ahead)
    job.leave()
    builds.gate.set()
    waiter.join()
    assert job.result().path == Path("a")


def test_closing_ends_what_runs_and_refuses_more(pool, builds):
    jobs = [pool.submit(source(name)) for name in "ab"]
    until(lambda: builds.order == ["a"])
    pool.close()
    for job in jobs:
        with pytest.raises(BuildError):
            job.result()
    with pytest.raises(BuildError, match="closed"):
        pool.submit(source("c"))


@pytest.mark.parametrize(
    ("cores", "gigabytes", "size"), [(1, 24, 1), (2, 24, 1), (6, 24, 3), (16, 128, 12), (16, 24, 6), (64, 512, 32)]
)
def test_a_machine_builds_with_what_timing_leaves_of_it(cores, gigabytes, size, monkeypatch):
    monkeypatch.setattr(pools, "cores_here", lambda: cores)
    monkeypatch.setattr(pools, "machine_bytes", lambda: gigabytes << 30)
    assert default_size() == size


@pytest.mark.parametrize(
    ("size", "worth", "crowded", "ahead"),
    [
        (12, None, True, 8),
        (12, 16, True, 8),
        (12, 9, True, 5),
        (12, 4, True, 2),
        (28, 5, True, 2),
        (12, 9, False, 8),
        (1, None, True, 1),
    ],
)
def test_builds_that_nobody_waits_for_leave_whole_cores_to_a_crowd(size, worth, crowded, ahead, monkeypatch):
    monkeypatch.setattr(pools, "worth", lambda: worth)
    assert pools.default_ahead(size, crowded) == ahead


def test_a_pool_asks_whether_there_is_a_crowd_before_each_build_ahead(builds, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "worth", lambda: 5)
    wide = BuildPool(Cache(tmp_path), size=3)
    wide.crowded = lambda: True
    try:
        jobs = [wide.submit(source(name), priority=10) for name in "ab"]
        until(lambda: builds.running == 1)
        time.sleep(0.05)
        assert builds.running == 1
        wide.crowded = lambda: False
        one = threading.Thread(target=wide.build, args=(source("now"),))  # wakes the workers
        one.start()
        until(lambda: builds.running == 3)
        builds.gate.set()
        one.join()
        assert [job.result().path for job in jobs] == [Path("a"), Path("b")]
    finally:
        builds.gate.set()
        wide.close()
