"""`python -m tests.faults` sees what it looks for: a clock that jumps in the processes of the app, and a log that lost
something."""

import os
import subprocess
import sys

import pytest

from tests.faults import ROOT, faults_of

CLOCKS = """
import datetime, time
from django.utils import timezone
now = datetime.datetime.now(datetime.UTC)
assert isinstance(now, datetime.datetime) and now.tzinfo is datetime.UTC
print(time.time(), timezone.now().timestamp(), now.timestamp(), time.time_ns() / 1e9, time.monotonic())
"""


def test_every_clock_of_the_day_jumps_and_the_monotonic_one_does_not(tmp_path):
    (tmp_path / "clock").write_text("-3600")
    path = os.pathsep.join([str(ROOT / "tests/jumping_clock"), str(ROOT)])
    environ = {**os.environ, "PYTHONPATH": path, "TESTS_CLOCK": str(tmp_path / "clock")}

    def clocks(environ) -> list[float]:
        done = subprocess.run([sys.executable, "-c", CLOCKS], env=environ, capture_output=True, text=True, check=True)
        return list(map(float, done.stdout.split()))

    jumped = clocks(environ)
    plain = clocks({**environ, "TESTS_CLOCK": ""})
    assert [b - a for a, b in zip(jumped[:4], plain[:4], strict=True)] == pytest.approx([3600] * 4, abs=30)
    assert plain[4] - jumped[4] < 30


def log(*kinds: str, state: str = "done") -> list[tuple[int, str, dict]]:
    """A log of these kinds; `proposed 2` is of trial 2."""
    rows = []
    for seq, word in enumerate(kinds, 1):
        kind, _, trial = word.partition(" ")
        data = {"state": state, "reason": "so", "code": "x"} if kind == "session.ended" else {}
        rows.append((seq, kind, {**data, **({"trial": int(trial)} if trial else {})}))
    return rows


TRIAL = ("trial.proposed 1", "trial.judged 1")


def test_a_whole_log_has_no_faults():
    assert not list(faults_of(log("session.started", *TRIAL, "session.ended"), stopped=False))
    ended = log("session.started", "trial.proposed 1", "session.ended", state="stopped")
    assert not list(faults_of(ended, stopped=True))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "it has no log"),
        (log("session.started", *TRIAL), "it is stuck after trial.judged"),
        (log("session.started", *TRIAL, "session.ended")[:2] + log(*"abcde", "session.ended")[5:], "a gap"),
        (log("session.started", *TRIAL, "trial.judged 1", "session.ended"), "its trials ended {1: 2}"),
        (log("session.started", "trial.proposed 1", "session.ended"), "its trials ended {}"),
        (log("session.started", "trial.proposed 2", "trial.judged 2", "session.ended"), "its trials are [2]"),
        (log("session.started", *TRIAL, "session.ended", state="failed"), "it failed: x so"),
        (log("session.started", *TRIAL, "session.ended", state="stopped"), "it stopped"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_log_that_lost_something_is_named(rows, words):
    assert any(words in fault for fault in faults_of(rows, stopped=False))
