"""`expand` leaves the sizes to its reader, so what needs the repeated elements themselves stays PyTorch."""

import pytest

pytest.importorskip("torch")

import torch

from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import lower
from tests.engine.strategies.functions import traced

X = torch.randn(2, 2, 8, 16)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.relu(x)[:, :, None].expand(2, 2, 4, 8, 16).reshape(2, 8, 8, 16) * 2,  # keys of grouped heads
        lambda x: torch.relu(x)[:, :, None].expand(2, 2, 4, 8, 16),
    ],
)
def test_a_reshape_and_a_result_have_every_element(function):
    with pytest.raises(SessionRefused, match="of an expanded tensor"):
        lower(traced(function, X))


def test_a_reader_that_broadcasts_takes_it_as_it_is():
    lowered = lower(traced(lambda x, y: x.expand(2, 2, 8, 16) + y, X[:, :1].clone(), X))
    assert len(lowered.stages) == 1
