"""Sessions advance side by side: neither a module that loops in its import nor a pause makes another wait."""

import re

from tests.playground import many_sessions


def test_a_loop_and_a_pause_delay_nobody_and_every_log_is_whole():
    result = many_sessions.play(sessions=4, trials=1, kills=0, limit=240.0, compilers="none")
    assert many_sessions.faults(result, timed=False) == []
    loops, paused, *others = result["sessions"]
    assert loops["code"] in ("time_limit", "") and paused["state"] == "open"
    assert [r["state"] for r in others] == ["done", "done"] and all(r["trials"] == 1 for r in others)
    assert all(r["spent"] for r in others)


def test_only_uses_of_the_lane_count_as_the_gpus_seconds():
    log = "gpu0 used by abc for 0.500 s until 10.000\nload gpu0 used by abc for 2.000 s until 9.000\n"
    assert re.findall(many_sessions.USED, log) == [("abc", "0.500", "10.000")]


def test_processes_that_open_a_gpu_are_counted_apart():
    log = "gpu0 used by abc for 0.500 s until 10.000\nload gpu0 used by abc for 2.000 s until 9.000\n"
    assert re.findall(many_sessions.OPENED, log) == [("abc", "2.000", "9.000")]
