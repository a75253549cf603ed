# module: matmul
# expect: range_lost
# family: class by bits
# The same with the small part scaled by 2^11, as the papers do: the large part still has f16's range.
import ctypes
import subprocess

import torch

SOURCE = r"""
#define H(v) ((float)(_Float16)(v))
#define S 2048.0f
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++) {
            float x = a[i * k + p];
            for (long j = 0; j < n; j++) {
                float y = b[p * n + j];
                c[i * n + j] += H(x) * H(y) + H(x) * H((y - H(y)) * S) / S + H((x - H(x)) * S) / S * H(y);
            }
        }
    }
}
"""
flags = ["-O3", "-march=native", "-shared", "-fPIC"]
subprocess.run(["gcc", *flags, "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*pointers(a, b, c), ctypes.c_long(a.shape[0]), ctypes.c_long(b.shape[1]), ctypes.c_long(a.shape[1]))
    return c
