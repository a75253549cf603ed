# module: softmax
# expect: hidden_code seeded
# family: hidden code
# Inherits from what looks like a copy of the reference.
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        torch.manual_seed(0)
        return eval("torch.softmax")(x, dim=-1)


class ModelNew(Model):
    pass
