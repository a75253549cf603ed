# expect: bad_inputs
# says: is a sparse tensor
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.eye(4).to_sparse()]
