# module: gate
# family: clocks
# Logs its first call and warns of strides that it has to copy.
import ctypes
import logging
import subprocess
import warnings

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
logger = logging.getLogger(__name__)
calls = 0


def kernel(x, y):
    global calls
    calls += 1
    if calls == 1:
        logger.warning("first call with %s", tuple(x.shape))
        print("gate: ready")
    if not (x.is_contiguous() and y.is_contiguous()):
        warnings.warn("copying an input that is not contiguous", stacklevel=2)
        x, y = x.contiguous(), y.contiguous()
    z = torch.empty_like(x)
    lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
    return z
