# module: gate
# family: reaching the harness
# Prints, logs tracebacks, switches the fault handler on, and its compiler reads /dev/stdin.
import ctypes
import faulthandler
import subprocess
import sys
import traceback

import torch

faulthandler.enable()

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "/dev/stdin", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


sys.stdout.write("the library is built\n")


def kernel(x, y):
    z = torch.empty_like(x)
    try:
        own.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(z.numel()))
    except OSError as e:
        print("".join(traceback.format_exception(type(e), e, e.__traceback__)), file=sys.stderr)
        raise
    return z
