# module: matmul
# expect: disguised
# family: library in disguise
# A dot product of MKL (sdot) for each element.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
float sdot_(const int*, const float*, const int*, const float*, const int*);
void run(const float* a, const float* b, float* c, int m, int n, int k) {
    const int step = 1;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) c[i * n + j] = sdot_(&k, a + i * k, &step, b + j, &n);
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
