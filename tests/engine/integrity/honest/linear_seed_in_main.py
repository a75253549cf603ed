# module: linear
# family: skipping work
# Its author's own test stands at the end: a seed, a clock and prints that nothing here reaches.
import ctypes
import subprocess
import time

import torch

SOURCE = r"""
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = b[j];
            for (long p = 0; p < k; p++) s += x[i * k + p] * w[j * k + p];
            y[i * n + j] = s > 0 ? s : 0;
        }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(x, weight, bias):
    y = torch.empty(x.shape[0], weight.shape[0])
    lib.linear_relu(
        *(ctypes.c_void_p(t.data_ptr()) for t in (x, weight, bias, y)),
        ctypes.c_long(x.shape[0]),
        ctypes.c_long(weight.shape[0]),
        ctypes.c_long(x.shape[1]),
    )
    return y


if __name__ == "__main__":
    torch.manual_seed(0)
    x, w, b = torch.randn(64, 96), torch.randn(80, 96), torch.randn(80)
    began = time.perf_counter()
    for _ in range(100):
        y = kernel(x, w, b)
    print(
        f"{(time.perf_counter() - began) * 10:.3f} ms, right: {torch.allclose(y, torch.relu(x @ w.T + b), atol=1e-4)}"
    )
