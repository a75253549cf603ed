# module: softmax
# expect: dressed
# family: library in disguise
# Carries a Triton kernel, and calls PyTorch.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, e / tl.sum(e, 0), mask=at < n)


def kernel(x):
    return torch.nn.functional.softmax(x, dim=-1)
