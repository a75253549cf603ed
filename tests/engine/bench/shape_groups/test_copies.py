"""A copy of as many bytes as a kernel moves: timed by the clock of raw kernels (on the CPU here), or predicted."""

import pytest

from engine.bench.studies.shape_groups import copies
from engine.bench.studies.shape_groups.saved import Saved
from engine.devices import SessionRefused
from engine.evaluate.integrity import measuring
from engine.evaluate.integrity.verify import Verifier
from engine.suite.shape_groups import GROUPS
from sol.hardware import load

MOVED = 1 << 22  # milliseconds on a CPU, which a busy machine does not outweigh


def on_the_cpu(source):
    verifier = Verifier(source, "cpu", local_user=True)
    verifier.start()
    verifier.examiner.reference.host_clock = True  # PyTorch's side is timed on a GPU only
    verifier.examiner.reference.close()
    return verifier


def briefly(monkeypatch):
    """Few batches, and once, however busy this machine is."""
    for name, value in {"PILOTS": 1, "PARTS": 2, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "steady", lambda take, samples: (take(), {}))


def test_a_copy_is_timed_by_the_clock_of_raw_kernels(monkeypatch):
    briefly(monkeypatch)
    one = copies.measured(MOVED, on_the_cpu)
    assert one["bytes"] == MOVED and one["kind"] == "measured" and one["method"].startswith("outside clock")
    assert 0 < one["low"] <= one["ms"] <= one["high"]


def test_the_copy_moves_as_many_bytes_as_the_kernel():
    silu = GROUPS["silu_and_mul"].module((16, 14336), "bf16")
    assert copies.moved_by(silu) == 16 * 14336 * 3 * 2  # both halves of a row read, one written
    assert copies.moved_by(copies.module(16 * 14336 * 3 * 2)) == 16 * 14336 * 3 * 2


def test_a_predicted_copy_says_so_and_takes_a_launch_at_few_rows():
    h200 = load("h200")
    small, large = copies.predicted(1 << 16, h200), copies.predicted(1 << 30, h200)
    assert small["kind"] == large["kind"] == "predicted"
    assert small["ms"] > 10 * (1 << 16) / h200.copy_rate * 1e3, "the launch alone"
    assert large["ms"] == pytest.approx((1 << 30) / h200.copy_rate * 1e3, rel=0.2)


def test_copies_of_as_many_bytes_are_timed_once_and_a_failure_says_why():
    timed = []

    def time_(moved):
        timed.append(moved)
        if len(timed) == 1:
            raise SessionRefused("gpu_lost", "The GPU cannot be used.")
        return {"bytes": moved, "ms": 1.0, "kind": "measured", "method": ""}

    saved = {}
    study, source = copies.Copies(time_, Saved(saved)), copies.module(4096)
    assert study.of(source) == {"bytes": 4096, "ms": None, "why": "The GPU cannot be used."} and not saved
    assert study.of(source)["ms"] == study.of(source)["ms"] == 1.0 and timed == [4096, 4096]
    assert copies.Copies(time_, Saved(saved)).of(source)["ms"] == 1.0 and len(timed) == 2
