"""PyTorch's own checks of values are left out while a module is traced, and stay where it is called."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F

from engine.trace import exported
from engine.trace.values.validation import unvalidated


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.GaussianNLLLoss()

    def forward(self, mean, target, var):
        return self.loss(mean, target, var) - Normal(mean, var.sqrt()).log_prob(target).mean()


def test_a_loss_of_variances_is_traced():
    args = (torch.randn(4, 3), torch.randn(4, 3), torch.rand(4, 3) + 0.1)
    program = exported.export(Loss(), args)
    torch.testing.assert_close(program.module()(*args), Loss()(*args))


def test_a_call_still_checks():
    bad = torch.zeros(2), torch.zeros(2), -torch.ones(2)
    any_of = torch.any
    with unvalidated():
        F.gaussian_nll_loss(*bad)
    assert torch.any is any_of
    with pytest.raises(ValueError, match="negative entry"):
        F.gaussian_nll_loss(*bad)
