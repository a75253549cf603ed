"""The process that waits for a profile: it ends with the engine and when nobody needs it, and works on nothing."""

import os
import select
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from engine.evaluate.profiling import launch_main
from engine.evaluate.profiling.launchers import Launcher, Launchers
from tests.engine.evaluate.profiling.reports import stand_in, without_quack


@pytest.fixture
def launcher(tmp_path):
    launcher = Launcher(stand_in(tmp_path), without_quack(tmp_path))
    assert launcher.wait_imported(60.0)
    yield launcher
    launcher.close()


def ends(handle, seconds):
    return bool(select.select([handle], [], [], seconds)[0])


def process_of(launcher):
    return int(Path(f"/proc/self/fdinfo/{launcher._handle}").read_text().partition("Pid:")[2].split()[0])


def test_it_takes_no_time_of_a_core_and_starts_no_cuda_while_it_waits(launcher):
    pid = process_of(launcher)

    def ticks():
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    before = ticks()
    time.sleep(0.5)
    assert ticks() - before <= 1 and launcher.alive
    assert "libcuda.so" not in Path(f"/proc/{pid}/maps").read_text()


def test_it_ends_with_the_engine_whose_pipes_close(launcher):
    """As those of a process that was killed do."""
    handle = os.dup(launcher._handle)
    assert not ends(handle, 0.2)
    pipes = [os.dup(pipe) for pipe in launcher._pipes]
    for pipe in launcher._pipes:
        os.close(pipe)
    for pipe in pipes:
        os.close(pipe)
    try:
        assert ends(handle, 60.0)
        launcher._process.wait(60.0)
    finally:
        os.close(handle)
        launcher._pipes[:] = [os.open(os.devnull, os.O_RDONLY) for _ in pipes]  # for `close`


def test_it_ends_when_it_is_closed_with_its_files(launcher):
    handle, folder = os.dup(launcher._handle), launcher.folder
    launcher.close()
    launcher.close()
    assert ends(handle, 60.0) and not folder.exists() and not launcher.alive
    os.close(handle)


def test_it_ends_after_an_idle_time(monkeypatch):
    monkeypatch.setattr(launch_main, "IDLE", 0.05)
    monkeypatch.setattr(launch_main, "_import", lambda hurried: None)
    read, write = os.pipe()
    replies = []
    with os.fdopen(read, "rb") as requests:
        assert launch_main._serve(requests, replies.append) == 0
    os.close(write)
    assert [list(reply) for reply in replies] == [["pid"], ["imported"]]


def test_at_most_one_waits_and_none_where_ncu_is_refused(tmp_path):
    ours = Launchers(stand_in(tmp_path), without_quack(tmp_path))
    try:
        ours.ahead()
        first = ours.spare
        ours.ahead()
        assert ours.spare is first
        launcher, ahead = ours.take()
        assert launcher is first and ahead and ours.spare is None
        launcher.close()
        ours.ahead()
        ours.refuse("The counters are closed.")
        ours.ahead()
        assert ours.spare is None
    finally:
        ours.close()
