# module: gate
# family: class by bits
# Arguments in a structure that a decorator builds of a class's annotations, as CuTe DSL's @cute.struct does.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
struct arguments { const float* x; const float* y; float* z; long n; };
void gate(const struct arguments* a) {
    for (long i = 0; i < a->n; i++) a->z[i] = a->x[i] / (1 + expf(-a->x[i])) + a->y[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def structure(cls):
    return type(cls.__name__, (ctypes.Structure,), {"_fields_": list(cls.__annotations__.items())})


@structure
class Arguments:
    x: ctypes.c_void_p
    y: ctypes.c_void_p
    z: ctypes.c_void_p
    n: ctypes.c_long


def kernel(x, y):
    z = torch.empty_like(x)
    lib.gate(ctypes.byref(Arguments(x.data_ptr(), y.data_ptr(), z.data_ptr(), x.numel())))
    return z
