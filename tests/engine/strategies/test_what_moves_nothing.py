"""A pad of nothing, a roll by nothing and a repeat of once are read through: windows are padded where they do not fit,
and rolled in every second layer, by the same line of a module."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from engine.devices import SessionRefused
from tests.engine.strategies.test_written_norms import program, traced

X = torch.randn(2, 8, 8, 64).half()
STILL = {
    "pad": lambda x: F.pad(x, (0, 0, 0, 0)), "roll": lambda x: torch.roll(x, (0, 0), (1, 2)),
    "repeat": lambda x: x.repeat(1, 1, 1, 1),
}  # fmt: skip
MOVING = {
    "pad": lambda x: F.pad(x, (0, 0, 0, 1)), "roll": lambda x: torch.roll(x, (0, 1), (1, 2)),
    "repeat": lambda x: x.repeat(1, 1, 2, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", STILL)
def test_its_reader_reads_the_tensor_itself(name):
    def function(x):
        return F.layer_norm(STILL[name](x), (64,)) * 2

    pipeline, (result,) = program(traced(function, X), "f16", X.double())
    torch.testing.assert_close(result.reshape(X.shape), function(X.double()), rtol=4e-3, atol=4e-3)
    assert [type(s).__name__ for s in pipeline.stages] == ["Normalize"]


@pytest.mark.parametrize("name", MOVING)
def test_one_that_moves_elements_stays_pytorchs(name):
    with pytest.raises(SessionRefused):
        program(traced(lambda x: F.layer_norm(MOVING[name](x), (64,)), X), "f16", X.double())
