# module: softmax
# expect: hidden_code
# family: hidden code
# Makes its code from text.
import torch

exec("def work(x): return torch.soft" + "max(x, dim=-1)")


def kernel(x):
    return work(x)
