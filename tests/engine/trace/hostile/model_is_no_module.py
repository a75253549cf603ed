# expect: no_model
# says: `Model` is not a torch.nn.Module
import torch


class Model:  # HERE
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(4, 8)]
