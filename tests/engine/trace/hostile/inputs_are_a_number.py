# expect: bad_inputs
# says: must give a list of tensors, not a int
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():  # HERE
    return 7
