# module: gate
# family: reaching the harness
# Asks what the machine has, compiles a temporary file by a program that it waits for, and says so on stderr.
import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile

import torch

with open("/proc/cpuinfo") as f:
    FLAGS = ["-mavx2"] if "avx2" in f.read() else []
THREADS = multiprocessing.cpu_count()
TYPES = {name: getattr(torch, name) for name in ("float32", "float64")}

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""
descriptor, path = tempfile.mkstemp(suffix=".c")
with os.fdopen(descriptor, "w") as f:
    f.write(SOURCE)
library = path.removesuffix(".c") + ".so"
compiler = ["gcc", "-O2", *FLAGS, "-shared", "-fPIC", path, "-o", library, "-lm"]
with subprocess.Popen(compiler, stderr=subprocess.PIPE, text=True) as gcc:
    _, errors = gcc.communicate()
if gcc.returncode:
    raise RuntimeError(errors)
lib = ctypes.CDLL(library)
sys.modules[__name__].__doc__ = f"silu(x) + y on {THREADS} cores"
print("built", library, file=sys.stderr)
sys.stdout.flush()


def kernel(x, y):
    if x.dtype != TYPES["float32"]:
        raise TypeError(x.dtype)
    z = torch.empty_like(x)
    lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
    return z
