"""What a timed program is asked besides its time: the same result again, and made by its own kernels."""

from types import ModuleType

import pytest

pytest.importorskip("torch")
import torch

from engine.evaluate.candidate.faults import Wrong
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.evaluate.integrity.trial import worst
from engine.suite.evidence import Loaded, checks

TEXT = """
import torch
calls = [0]
kept = {}
def kernel(x, y):
    calls[0] += 1
    BODY
STAGES = {"product": (kernel, None)}
def load(artifact=None):
    def run(inputs, outputs):
        kernel(inputs[0], outputs[0])
        AFTER
    return run
"""


def ran(body, after="pass"):
    """(a program that was run once and verified, its result)."""
    module = ModuleType("generated")
    exec(TEXT.replace("BODY", body).replace("AFTER", after), module.__dict__)
    x, out = torch.randn(64, 64), Guarded((64, 64), torch.float32, "cpu")
    out.poison()
    loaded = Loaded(module, None, module.load(), [x], [out], Snapshot())
    loaded.call()
    return loaded, out.tensor.clone()


def test_an_honest_program_is_clean_and_each_check_says_what_was_seen():
    loaded, first = ran("y.copy_(x @ x)")
    found = checks(loaded, first, "tf32", 0.1, 11)
    said = {c["name"]: c for c in found}
    assert worst(found) == "clean"
    assert said["without kernels"]["verdict"] == "passed" and "4,096 of 4,096" in said["without kernels"]["said"]
    assert "same bits" in said["repeated"]["said"] and "1 of 11" in said["timed results"]["said"]


def test_sums_in_another_order_are_said_and_allowed():
    loaded, first = ran("y.copy_(x @ x * (1 + 1e-7 * calls[0]))")
    assert "another order" in checks(loaded, first, "tf32", 0.1, 11)[-1]["said"]


def test_what_the_verified_call_left_and_later_ones_do_not_is_found():
    loaded, first = ran("y.copy_(x @ x) if calls[0] == 1 else None")
    with pytest.raises(Wrong, match="unwritten"):
        checks(loaded, first, "tf32", 0.1, 11)


@pytest.mark.parametrize(("body", "code"), [
    ("y.copy_(x @ x if calls[0] == 1 else x)", "repeat_differs"),
    ("y.copy_(x @ x if calls[0] != 2 else x)", "timed_differs"),
])  # fmt: skip
def test_another_result_than_the_verified_one_is_wrong(body, code):
    loaded, first = ran(body)
    if code == "timed_differs":
        loaded.call()
    with pytest.raises(Wrong) as e:
        checks(loaded, first, "tf32", 0.1, 11)
    assert e.value.code == code


def test_a_result_that_no_kernel_made_is_gaming():
    loaded, first = ran("pass", after="outputs[0].copy_(inputs[0] @ inputs[0])")
    assert worst(checks(loaded, first, "tf32", 0.1, 11)) == "gaming"
