# module: matmul
# expect: disguised
# family: library in disguise
# Calls the OpenBLAS that NumPy ships.
import ctypes
import glob
import os

import numpy
import torch

blas = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(numpy.__file__) + ".libs", "*openblas*"))[0])


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    m, n, k = (ctypes.c_int64(v) for v in (c.shape[0], c.shape[1], a.shape[1]))
    p = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]
    blas.scipy_cblas_sgemm64_(101, 111, 111, m, n, k, ctypes.c_float(1), p[0], k, p[1], n, ctypes.c_float(0), p[2], n)
    return c
