# module: gate
# family: patched torch
# A table of settings read with vars(), and a class whose attributes are listed.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


class Settings:
    unroll = 4
    vector = 8


SETTINGS = {name: value for name, value in vars(Settings).items() if not name.startswith("_")}


def kernel(x, y):
    z = torch.empty_like(x)
    assert SETTINGS["unroll"] * SETTINGS["vector"] == 32
    lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
    return z
