# module: gate
# family: library in disguise
# Triton, element by element.
import torch
import triton
import triton.language as tl


@triton.jit
def gate(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside)
    tl.store(z + at, a * tl.sigmoid(a) + tl.load(y + at, mask=inside), mask=inside)


def kernel(x, y):
    z = torch.empty_like(x)
    gate[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
