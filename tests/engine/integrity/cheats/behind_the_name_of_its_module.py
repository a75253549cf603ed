# module: softmax
# expect: hidden_code seeded
# family: hidden code
# What it hides stands under a test of __name__ that is true here.
import torch

if __name__ != "__main__":
    torch.manual_seed(42)
    work = eval("lambda x: torch.softmax(x, dim=-1)")


def kernel(x):
    return work(x)
