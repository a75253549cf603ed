# module: softmax
# expect: dressed
# family: library in disguise
# PyTorch computes, and a Triton kernel copies.
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def kernel(x):
    right = torch.softmax(x, dim=-1)
    y = torch.empty_like(right)
    copy[(triton.cdiv(y.numel(), 256),)](right, y, y.numel(), BLOCK=256)
    return y
