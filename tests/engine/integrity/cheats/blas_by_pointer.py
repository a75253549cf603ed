# module: matmul
# expect: disguised
# family: library in disguise
# Gives its C function the address of the BLAS inside of libtorch.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
typedef void (*product)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                        const int*, const float*, const int*, const float*, float*, const int*);
void matmul(product f, const float* a, const float* b, float* c, int m, int n, int k) {
    float one = 1, zero = 0;
    f("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, c, &n);
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
blas = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
address = ctypes.cast(blas.sgemm_, ctypes.c_void_p)


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(address, *[ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)], c.shape[0], c.shape[1], a.shape[1])
    return c
