"""The study of kernels that lie about their time, tried on the CPU with a small product."""

import pytest

from engine.bench.studies import liars
from engine.evaluate.integrity import measuring
from engine.evaluate.integrity.verify import Verifier

HALF = "half of the product where it finds what it built when it was checked"


@pytest.fixture(scope="module")
def verifier():
    with Verifier(liars.MODULE.replace("8192", "250"), "cpu", local_user=True) as process:
        process.examiner.reference.host_clock = True  # PyTorch's side is timed on a GPU only
        process.examiner.reference.close()
        yield process


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, value in {"PILOTS": 1, "PARTS": 2, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "steady", lambda take, samples: (take(), {}))


def test_an_honest_kernel_is_timed_and_nothing_is_found(verifier):
    row = liars.look(verifier, "")
    assert row["ms"] > 0 and row["looked_at"] == 4 and not row["refused"]


def test_a_kernel_that_builds_a_mark_to_find_it_later_is_wrong_when_it_is_timed(verifier):
    row = liars.look(verifier, liars.LIES[HALF].replace("4096", "125"))
    assert row["refused"] and any("is not what the module computes" in finding for finding in row["findings"])
