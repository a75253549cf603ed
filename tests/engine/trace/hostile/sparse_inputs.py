# expect: bad_inputs
# says: not a dense tensor
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.eye(4).to_sparse()]
