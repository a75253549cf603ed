# expect: no_model
# says: define `class Model(torch.nn.Module)`
import torch


def forward(x):
    return x * 2


def get_inputs():
    return [torch.randn(4, 8)]
