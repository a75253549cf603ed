# module: matmul
# expect: disguised
# family: library in disguise
# Calls the BLAS inside of libtorch by its name.
import ctypes
import os

import torch

blas = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    m, n, k = (ctypes.byref(ctypes.c_int(v)) for v in (c.shape[1], c.shape[0], a.shape[1]))
    one, zero, no = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0)), ctypes.c_char_p(b"N")
    p = [ctypes.c_void_p(t.data_ptr()) for t in (b, a, c)]
    blas.sgemm_(no, no, m, n, k, one, p[0], m, p[1], k, zero, p[2], m)
    return c
