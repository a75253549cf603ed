# module: matmul
# expect: precision_lowered
# family: class by bits
# Triton's default precision behind a float32 promise.
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for p in range(0, K, BK):
        k = p + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    tl.store(c + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    grid = (triton.cdiv(a.shape[0], 32), triton.cdiv(b.shape[1], 32))
    matmul[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], PRECISION="tf32", BM=32, BN=32, BK=32)
    return c
