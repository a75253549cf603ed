# module: matmul
# family: skipping work
# Chooses its block by the shape and the number of cores, from a table.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
void matmul(const float* a, const float* b, float* c, long m, long n, long k, long block) {
    for (long i = 0; i < m * n; i++) c[i] = 0;
    for (long p0 = 0; p0 < k; p0 += block)
        for (long i = 0; i < m; i++)
            for (long p = p0; p < (p0 + block < k ? p0 + block : k); p++)
                for (long j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
BLOCKS = {(64, 64): 16, (128, 64): 32}


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    cores = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    block = BLOCKS.get(tuple(a.shape), 24 if cores > 1 else 48)
    lib.matmul(
        *(ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)),
        *(ctypes.c_long(v) for v in (a.shape[0], b.shape[1], a.shape[1], block)),
    )
    return c
