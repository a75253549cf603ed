# module: softmax
# expect: dressed
# family: library in disguise
# NumPy's ufuncs compute, which are in no library of products and in no profile, and its own kernel copies the result,
# whose address is in a structure.
import ctypes
import subprocess

import numpy
import torch

SOURCE = r"""
struct job { const float* x; float* y; long n; };
void copy(const struct job* j) {
    for (long i = 0; i < j->n; i++) j->y[i] = j->x[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


class Job(ctypes.Structure):
    _fields_ = (("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("n", ctypes.c_long))


def copied(right):
    y = torch.empty(tuple(right.shape))
    lib.copy(ctypes.byref(Job(right.data_ptr(), y.data_ptr(), y.numel())))
    return y


def kernel(x):
    v = x.numpy()
    v = numpy.exp(numpy.subtract(v, numpy.maximum.reduce(v, axis=1, keepdims=True)))
    return copied(torch.from_numpy(numpy.divide(v, numpy.add.reduce(v, axis=1, keepdims=True))))
