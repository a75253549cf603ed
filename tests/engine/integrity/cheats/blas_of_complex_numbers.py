# module: matmul
# expect: disguised
# family: library in disguise
# cgemm of MKL on numbers whose imaginary parts are zero.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
#include <stdlib.h>
void cgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
            const float*, const int*, const float*, float*, const int*);
static float* widened(const float* x, long n) {
    float* z = calloc(2 * n, sizeof *z);
    for (long i = 0; i < n; i++) z[2 * i] = x[i];
    return z;
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
    float *u = widened(a, (long)m * k), *v = widened(b, (long)k * n), *w = calloc(2 * m * n, 4);
    const float one[] = {1, 0}, zero[] = {0, 0};
    cgemm_("n", "n", &n, &m, &k, one, v, &n, u, &k, zero, w, &n);
    for (long i = 0; i < (long)m * n; i++) c[i] = w[2 * i];
    free(u); free(v); free(w);
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
