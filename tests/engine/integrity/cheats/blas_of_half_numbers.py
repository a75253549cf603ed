# module: matmul
# class: f16
# expect: disguised
# family: library in disguise
# The product of f16 numbers of MKL.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
#include <stdlib.h>
void gemm_f16f16f32_(const char*, const char*, const int*, const int*, const int*, const float*, const void*,
                     const int*, const void*, const int*, const float*, float*, const int*);
void run(const float* a, const float* b, float* c, int m, int n, int k) {
    _Float16 *u = malloc(2l * m * k), *v = malloc(2l * k * n);
    for (long i = 0; i < (long)m * k; i++) u[i] = (_Float16)a[i];
    for (long i = 0; i < (long)k * n; i++) v[i] = (_Float16)b[i];
    const float one = 1, zero = 0;
    gemm_f16f16f32_("n", "n", &n, &m, &k, &one, v, &n, u, &k, &zero, c, &n);
    free(u); free(v);
}
"""
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
command += [f"-L{folder}", "-ltorch_cpu", "-Wl,--allow-shlib-undefined"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    own.run(*(ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)), c.shape[0], c.shape[1], a.shape[1])
    return c
