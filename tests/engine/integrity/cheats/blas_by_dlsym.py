# module: matmul
# expect: harness_access disguised
# family: library in disguise
# Looks for the BLAS among the loaded libraries, under a name in two parts.
import ctypes
import subprocess

import torch

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <stddef.h>
typedef void (*product)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                        const int*, const float*, const int*, const float*, float*, const int*);
static void* f;
static int look(struct dl_phdr_info* info, size_t size, void* data) {
    char name[8] = "sge";
    if (strstr(info->dlpi_name, "torch_cpu")) f = dlsym(dlopen(info->dlpi_name, RTLD_LAZY), strcat(name, "mm_"));
    return f != 0;
}
void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    float one = 1, zero = 0;
    if (!f) dl_iterate_phdr(look, 0);
    ((product)f)("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, c, &n);
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*[ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)], c.shape[0], c.shape[1], a.shape[1])
    return c
