# module: matmul
# expect: disguised
# family: library in disguise
# Calls cuBLAS by its C interface.
import ctypes
import glob
import os

import torch

folders = [os.path.dirname(torch.__file__) + "/lib", *glob.glob(os.path.dirname(torch.__file__) + "/../nvidia/*/lib")]
path = next(p for f in folders for p in glob.glob(f + "/libcublas.so*"))
blas, handle = ctypes.CDLL(path), ctypes.c_void_p()


def kernel(a, b):
    if not handle:
        blas.cublasCreate_v2(ctypes.byref(handle))
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    blas.cublasSetStream_v2(handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    m, n, k = c.shape[1], c.shape[0], a.shape[1]
    p = [ctypes.c_void_p(t.data_ptr()) for t in (b, a, c)]
    blas.cublasSgemm_v2(handle, 0, 0, m, n, k, one, p[0], m, p[1], k, zero, p[2], m)
    return c
