# expect: module_raised
# says: raised ValueError: negative
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        if x.shape[0] == 4:
            raise ValueError("negative")  # HERE
        return x


def get_inputs():
    return [torch.randn(4, 8)]
