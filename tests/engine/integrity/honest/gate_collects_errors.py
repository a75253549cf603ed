# module: gate
# family: fallback paths
# Tries flags until some compile, remembers those that did not in a set, and logs the error with its traceback.
import contextlib
import ctypes
import logging
import os
import subprocess
import traceback

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""
unsupported = set()


def build():
    command = ["-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"]
    for flags in ("-march=nonesuch", "-O2"):
        try:
            subprocess.run(["gcc", flags, *command], input=SOURCE, text=True, check=True, capture_output=True)
            return ctypes.CDLL("./kernel.so")
        except subprocess.CalledProcessError:
            unsupported.add(flags)
            logging.exception("gcc does not take %s", flags)
    raise RuntimeError("".join(traceback.format_stack()))


lib = build()
print(traceback.format_stack()[0])
seen = set()


def kernel(x, y):
    with contextlib.suppress(OSError):
        os.unlink("kernel.log")
    seen.add(tuple(x.shape))
    z = torch.empty_like(x)
    lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
    return z
