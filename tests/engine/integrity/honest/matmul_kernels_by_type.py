# module: matmul
# family: class by bits
# Keeps functions, not results, in a dictionary.
import ctypes
import subprocess

import torch

SOURCE = r"""
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++)
            for (long j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


functions = {}


def function(dtype):
    if dtype not in functions:
        functions[dtype] = lib.matmul
    return functions[dtype]


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    sizes = [ctypes.c_long(n) for n in (a.shape[0], b.shape[1], a.shape[1])]
    function(a.dtype)(*pointers(a, b, c), *sizes)
    return c
