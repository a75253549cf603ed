"""linalg.lstsq has shapes where a module is traced, those of matrices of full rank."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.trace.fake import least_squares


@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((4, 5, 3), (4, 5, 2)), ((4, 5, 3), (1, 5, 2)), ((4, 5, 3), (4, 5))],
)
def test_they_are_those_of_a_call(a, b):
    least_squares()
    a, b = torch.randn(a), torch.randn(b)
    right = torch.linalg.lstsq(a, b)
    with FakeTensorMode() as mode:
        ours = torch.linalg.lstsq(mode.from_tensor(a), mode.from_tensor(b))
    for name in ("solution", "rank"):
        one, other = getattr(ours, name), getattr(right, name)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    if b.dim() == a.dim():
        assert ours.residuals.shape == right.residuals.shape
