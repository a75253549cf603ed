"""While a kernel's first call compiles, the module computes what the next rounds are compared with."""

import time

import pytest

torch = pytest.importorskip("torch")

from engine import sandbox
from engine.devices import TrialError
from engine.evaluate.integrity import examination
from engine.evaluate.integrity.process.candidate import Candidate
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.integrity.process.judge_main import Judge as Judging
from engine.evaluate.integrity.verify import Verifier
from engine.evaluate.reference.module_process import Reference

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)
def get_inputs(): return [torch.randn(32, 16), torch.randn(32, 16)]
"""
RESULT, ROOM = 32 * 16 * 8, 5 * 32 * 16 * 8  # bytes of the module's result, and more than its inputs take
RIGHT = "import torch\n\n\ndef kernel(x, y):\n    return torch.relu(x + y)\n"
COARSE = RIGHT.replace("return ", "return 1.05 * ")
FEW = RIGHT.replace("    return ", "    if x.abs().max() > 100:\n        x = x * 1.05\n    return ")


@pytest.fixture
def verified(monkeypatch, full_sandbox):
    """`verified(text)` where the first call takes half a second: its report, and the rounds whose results are held."""
    ahead, used, first = [], [], []
    real, judged = Candidate.ask, Judge.ask

    def ask(candidate, do, timeout, **arguments):
        if do == "call" and not first:
            first.append(True)
            time.sleep(0.5)
        return real(candidate, do, timeout, **arguments)

    def noted(judge, op, **arguments):
        if op == "hold":
            ahead.append(arguments["key"])
        if arguments.get("held"):
            used.append(arguments["held"])
        return judged(judge, op, **arguments)

    monkeypatch.setattr(Candidate, "ask", ask)
    monkeypatch.setattr(Judge, "ask", noted)

    def of(text):
        with Verifier(MODULE, local_user=True) as verifier:
            return verifier.verify(text), ahead, used

    yield of
    sandbox.drain()


def test_every_round_on_all_rows_is_held_and_used(verified):
    report, ahead, used = verified(RIGHT)
    assert len(ahead) == len(set(ahead)) > 6 and set(used) == set(ahead), (ahead, used)
    assert report.verdict == "library only" and len(report.rounds) > len(ahead)


@pytest.mark.parametrize("text", [COARSE, FEW])
def test_a_wrong_result_is_found_in_rounds_that_were_held(verified, text):
    report, ahead, used = verified(text)
    assert "wrong_result" in report.codes and set(used) == set(ahead)


def test_no_more_is_held_than_there_is_room_for(verified, monkeypatch):
    monkeypatch.setattr(examination, "AHEAD_BYTES", ROOM)
    report, ahead, used = verified(RIGHT)
    assert len(ahead) == ROOM // RESULT > 0 and set(used) == set(ahead)
    assert report.verdict == "library only"


def test_beside_a_large_kernel_nothing_is_computed(verified, monkeypatch):
    monkeypatch.setattr(examination, "AHEAD_BYTES", 0)
    report, ahead, used = verified(RIGHT)
    assert (ahead, used) == ([], []) and report.verdict == "library only"


def test_a_judge_without_memory_for_more_compares_as_if_nothing_was_held(verified, monkeypatch):
    asked = Judge.ask

    def full(judge, op, **arguments):
        return {"held": False} if op == "hold" else asked(judge, op, **arguments)

    monkeypatch.setattr(Judge, "ask", full)
    report, _, used = verified(RIGHT)
    assert used == [] and report.verdict == "library only"


def test_the_judge_says_that_it_has_no_memory(monkeypatch):
    judge = Judging("cpu")
    monkeypatch.setattr(judge, "_right", lambda request: (_ for _ in ()).throw(torch.OutOfMemoryError("full")))
    assert judge.hold({"key": "k"}) == {"held": False} and judge.references == {}


def test_a_first_call_that_fails_is_the_kernels(verified):
    report, *_ = verified("def kernel(x, y):\n    raise ValueError('no')\n")
    assert "raised" in report.codes


def test_a_first_call_that_fails_is_the_kernels_though_the_module_fails_beside_it(verified, monkeypatch):
    def compute(*_, **__):
        raise TrialError("validate", "raised", "the module does not like these values")

    monkeypatch.setattr(Reference, "compute", compute)
    report, *_ = verified("def kernel(x, y):\n    raise ValueError('no')\n")
    assert "raised" in report.codes
    with pytest.raises(TrialError, match="does not like"):
        verified(RIGHT)


def test_the_judge_compares_with_nothing_else_than_what_it_holds():
    with pytest.raises(KeyError):
        Judging("cpu").results({"held": "normal:1:None:", "reference": {}})
