"""Where a module turns rounding into noise, or into other booleans and integers, PyTorch's own error decides."""

from types import SimpleNamespace

import pytest
import torch

from engine.devices import TrialError
from engine.evaluate.correctness.tolerance import MEANINGLESS, Comparison, PyTorchError, says_nothing, verdict
from engine.evaluate.correctness.verification import Round, RoundResult, Rounds
from engine.evaluate.reference import right_results
from engine.session import events
from tests.engine.evaluate.test_row_slices import held, module
from tests.engine.unbuilt import assert_judged_clean, session

CANDIDATE = SimpleNamespace(cls="tf32", trial=1)
NOISE = PyTorchError(2.2, 8.0)


def test_an_own_error_of_a_quarter_judges_nothing_but_nan():
    assert says_nothing(NOISE) and says_nothing(PyTorchError(MEANINGLESS, 1.0)) and not says_nothing(None)
    assert not says_nothing(PyTorchError(0.2, 1.0)), "as in fp8"
    assert verdict("tf32", Comparison(9.0, 99.0, 0, 100), NOISE) is None
    assert "3 of 100 elements are NaN" in verdict("tf32", Comparison(0.0, 0.0, 3, 100), NOISE)
    assert verdict("tf32", Comparison(1.0, 1.0, 0, 100), PyTorchError(0.24, 1.0)), "zeros are wrong below it"


class Some(Rounds):
    """Rounds with these errors, and with PyTorch's own: family -> (error, own)."""

    def __init__(self, errors):
        self.errors = errors

    def begin(self, candidate):
        return [Round(family, 1) for family in self.errors]

    def run(self, candidate, round_):
        return RoundResult([Comparison(self.errors[round_.family][0], 0.0, 0, 100)])

    def pytorch_error(self, round_, cls, suspected):
        return PyTorchError(self.errors[round_.family][1], 0.0)

    def scope(self, checks, repeats):
        return f"{len(checks)} rounds"


def test_a_round_of_noise_is_left_out_and_said():
    validated = Some({"own": (1e-3, 1e-3), "large": (3.0, 2.2), "tiny": (0.0, 0.0)}).validate(CANDIDATE)
    assert [c["family"] for c in validated.checks] == ["own", "tiny"]
    assert (validated.error, validated.tolerance) == (1e-3, pytest.approx(2.0**-9))
    assert validated.scope == "2 rounds; 1 round left out, where PyTorch itself, in class tf32, is off by up to 2.2"


def test_other_rounds_are_judged_as_ever():
    with pytest.raises(TrialError, match="on own inputs, relative error") as wrong:
        Some({"large": (3.0, 2.2), "own": (0.1, 1e-3)}).validate(CANDIDATE)
    assert wrong.value.code == "wrong_result"


def test_noise_alone_verifies_nothing():
    with pytest.raises(TrialError, match="on all inputs") as nothing:
        Some({"own": (0.1, 0.3), "large": (3.0, 2.2)}).validate(CANDIDATE)
    assert nothing.value.code == "nothing_to_compare" and "off by up to 2.2" in nothing.value.reason


# ---- booleans and integers ----

LAYER = "self.l = nn.Linear(256, 64)"
SHAPE = "512, 256"
FLIPS = {
    "a comparison": module("self.l(x) > 0", SHAPE, LAYER),
    "equal to its own maximum": module("self.l(x) == self.l(x).amax(-1, keepdim=True)", SHAPE, LAYER),
    "the place of a maximum": module("self.l(x).argmax(-1)", SHAPE, LAYER),
    "rounded": module("torch.round(self.l(x) * 4).to(torch.int32)", SHAPE, LAYER),
}


@pytest.mark.parametrize("source", FLIPS.values(), ids=FLIPS)
def test_a_program_whose_booleans_flip_as_pytorch_s_do_is_right(source, full_sandbox):
    assert_judged_clean(session(source))


@pytest.mark.parametrize("name", ["a comparison", "rounded"])
@pytest.mark.parametrize("sliced", [False, True])
def test_pytorch_s_own_flips_are_its_error(name, sliced, monkeypatch):
    if sliced:
        monkeypatch.setattr(right_results, "SLICED_BYTES", 1 << 12)
        monkeypatch.setattr(right_results, "SLICE_BYTES", 1 << 20)
    process = held(FLIPS[name])
    assert bool(process.right._parts(None)) is sliced
    errors = {cls: process.do_error("normal", 3, cls, None)["error"] for cls in ("f32", "tf32", "bf16")}
    assert errors["f32"] < 0.003 < errors["tf32"] < errors["bf16"] < 0.2


def test_what_is_exact_has_no_room_for_a_flip(full_sandbox):
    """Inputs are exact: no class rounds them, so PyTorch makes no error, and one flip of many is wrong."""
    process = held(module("x > 0.5", SHAPE))
    own = process.do_error("normal", 3, "f16", None)
    assert own["error"] == 0.0
    right = torch.randn(1000) > 0.5
    error = (1 / int(right.sum())) ** 0.5
    assert verdict("f16", Comparison(error, 1.0, 0, 1000), PyTorchError(0.0, 0.0))


def test_the_log_of_such_a_session_says_what_was_compared(full_sandbox):
    (validated,) = (e for e in session(FLIPS["a comparison"]) if isinstance(e, events.TrialValidated))
    assert 0 < validated.error <= validated.tolerance < 0.1 and validated.bound == "twice PyTorch's own"
