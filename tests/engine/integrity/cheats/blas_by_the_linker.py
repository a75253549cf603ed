# module: matmul
# expect: disguised
# family: library in disguise
# Links its kernel with libtorch, and calls the BLAS under another name.
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
extern void tile(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
                 const float*, const int*, const float*, float*, const int*) __asm__("sgemm_");
void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    float one = 1, zero = 0;
    tile("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, c, &n);
}
"""
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", f"-L{folder}", "-l:libtorch_cpu.so",
     "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{folder}"], input=SOURCE, text=True, check=True,
)  # fmt: skip
lib = ctypes.CDLL("./kernel.so")


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*[ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)], c.shape[0], c.shape[1], a.shape[1])
    return c
