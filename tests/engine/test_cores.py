"""Builds stay off the cores of the lane, with a lower priority; what is timed may use all cores."""

import os
import subprocess
import sys
import threading

import pytest

from engine import cores

AFFINITY = "import os; print(sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0))"

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="affinity is Linux's")


@pytest.fixture
def few(monkeypatch):
    """A machine whose quiet cores are all but one, whatever it has."""
    here = os.sched_getaffinity(os.getpid())
    if len(here) < 2:
        pytest.skip("one core")
    monkeypatch.setattr(cores, "ENOUGH", 2)
    monkeypatch.setattr(cores, "QUIET", len(here) - 1)
    monkeypatch.setattr(cores, "_all", set())
    monkeypatch.setattr(cores, "_worth", 0)
    cores.reserve()
    return sorted(here)


def child() -> tuple[list[int], int]:
    out = subprocess.check_output([sys.executable, "-c", AFFINITY], text=True)
    affinity, _, nice = out.strip().rpartition(" ")
    return [int(c) for c in affinity.strip("[]").split(",")], int(nice)


def in_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_a_thread_that_builds_and_its_compilers_leave_the_quiet_cores_for_good(few):
    def builds():
        cores.stay_aside()
        return child()

    affinity, nice = in_thread(builds)
    assert affinity == few[-1:] and nice == cores.NICE
    assert child() == (few, os.getpriority(os.PRIO_PROCESS, 0))


def test_a_process_that_starts_aside_gets_all_cores_when_it_is_timed(few):
    def starts():
        with cores.aside():
            process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        return process, sorted(os.sched_getaffinity(0))

    process, back = in_thread(starts)
    try:
        assert back == few and sorted(os.sched_getaffinity(process.pid)) == few[-1:]
        cores.everywhere([process.pid])
        assert sorted(os.sched_getaffinity(process.pid)) == few
    finally:
        process.communicate(b"\n")


def test_nothing_moves_before_a_gpu_is_used(few, monkeypatch):
    monkeypatch.setattr(cores, "_all", set())

    def builds():
        cores.stay_aside()
        with cores.aside():
            return child()

    assert in_thread(builds)[0] == few


@pytest.mark.parametrize("text", ["{0}-{1}", "{0},{1}"])
def test_both_threads_of_a_quiet_core_are_quiet(monkeypatch, tmp_path, text):
    pairs = [(0, 8), (1, 9), (2, 10), (3, 11)] if "," in text else [(0, 1), (2, 3), (4, 5), (6, 7)]
    for pair in pairs:
        for core in pair:
            folder = tmp_path / f"cpu{core}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(text.format(*pair) + "\n")
    monkeypatch.setattr(cores, "TOPOLOGY", tmp_path)
    every = {core for pair in pairs for core in pair}
    assert cores.others(every) == {core for pair in pairs[2:] for core in pair}
    assert cores.others(every - {pairs[0][1]}) == set(pairs[3]), "of the first, one is not this process's"
    assert cores.side_by_side(every) == [core for pair in pairs for core in pair]


def test_builds_have_cores_where_all_threads_share_one(monkeypatch, tmp_path):
    for core in range(8):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text("0-7\n")
    monkeypatch.setattr(cores, "TOPOLOGY", tmp_path)
    assert cores.others(set(range(8))) == set(range(4, 8))


def test_a_machine_that_does_not_say_which_threads_share_a_core_keeps_the_first_ones_quiet(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "TOPOLOGY", tmp_path)
    assert cores.others(set(range(8))) == set(range(4, 8))


def test_cores_that_slow_each_other_down_are_worth_fewer(few, monkeypatch):
    assert 1 <= cores.worth() <= len(few)
    monkeypatch.setattr(cores, "_speed", lambda some: 10.0 if len(some) == 1 else 5.6 * len(some))
    monkeypatch.setattr(cores, "_all", set(range(16)))
    cores._measure()
    assert cores.worth() == 9
    monkeypatch.setattr(cores, "_speed", lambda some: 10.4 * len(some))
    cores._measure()
    assert cores.worth() == 16, "not more than there are"


def test_a_thread_on_each_core_works_for_as_long_as_it_is_measured(few, monkeypatch):
    monkeypatch.setattr(cores, "MEASURED", 0.02)
    before = os.sched_getaffinity(0)
    assert cores._speed(few) > cores._speed(few[:1]) / 2 > 0
    assert os.sched_getaffinity(0) == before
