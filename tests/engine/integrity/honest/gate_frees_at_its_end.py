# module: gate
# family: work out of sight
# Holds memory in C, which a finalizer and the end of the process free, and keeps options in its own dictionary.
import atexit
import ctypes
import subprocess
import weakref

import torch

SOURCE = r"""
#include <math.h>
#include <stdlib.h>
static void* cache_of_rows;
void setup(void) { cache_of_rows = malloc(4096 * sizeof(float)); }
void teardown(void) { free(cache_of_rows), cache_of_rows = 0; }
void* plan(void) { return malloc(64); }
void unplan(void* p) { free(p); }
void gate(const float* x, const float* y, float* z, long n) {
    if (!cache_of_rows) setup();
    float* row = cache_of_rows;
    for (long i = 0; i < n; i += 4096) {
        long m = n - i < 4096 ? n - i : 4096;
        for (long j = 0; j < m; j++) row[j] = x[i + j] / (1 + expf(-x[i + j]));
        for (long j = 0; j < m; j++) z[i + j] = row[j] + y[i + j];
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
lib.plan.restype = ctypes.c_void_p
lib.unplan.argtypes = [ctypes.c_void_p]
lib.setup()
atexit.register(lib.teardown)


class ModelNew(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.__dict__.update(options)
        weakref.finalize(self, lib.unplan, lib.plan())

    def forward(self, x, y):
        z = torch.empty_like(x)
        lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
        return z
