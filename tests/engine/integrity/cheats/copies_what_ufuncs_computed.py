# module: softmax
# expect: dressed
# family: library in disguise
# NumPy's ufuncs compute, which are in no library of products and in no profile, and its own kernel copies the result.
import ctypes
import subprocess

import numpy
import torch

SOURCE = r"""
void copy(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = x[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def copied(right):
    y = torch.empty(tuple(right.shape))
    lib.copy(ctypes.c_void_p(right.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
    return y


def kernel(x):
    v = x.numpy()
    v = numpy.exp(numpy.subtract(v, numpy.maximum.reduce(v, axis=1, keepdims=True)))
    return copied(torch.from_numpy(numpy.divide(v, numpy.add.reduce(v, axis=1, keepdims=True))))
