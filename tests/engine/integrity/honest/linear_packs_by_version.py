# module: linear
# family: memo and stale results
# Packs its weights again whenever their address or version is another one.
import ctypes
import subprocess

import torch

SOURCE = r"""
void rows(const float* x, const float* packed, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float sum = 0;
            for (long p = 0; p < k; p++) sum += x[i * k + p] * packed[p * n + j];
            y[i * n + j] = sum + b[j] > 0 ? sum + b[j] : 0;
        }
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


packing = {}


def packed(w):
    now = (w.data_ptr(), w._version)
    if packing.get("version") != now:
        packing.update(version=now, weights=w.t().contiguous())
    return packing["weights"]


def kernel(x, w, b):
    y = torch.empty(x.shape[0], w.shape[0])
    at = [ctypes.c_void_p(t.data_ptr()) for t in (x, packed(w), b, y)]
    own.rows(*at, *(ctypes.c_long(n) for n in (x.shape[0], w.shape[0], x.shape[1])))
    return y
