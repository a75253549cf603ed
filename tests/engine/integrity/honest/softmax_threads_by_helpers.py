# module: softmax
# family: work out of sight
# One function starts threads, another waits for them, at most half a minute each.
import ctypes
import subprocess
import threading

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def launch(x, y):
    own.softmax(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), *(ctypes.c_long(s) for s in x.shape))
    return y


def start(x, y):
    thread = threading.Thread(target=launch, args=(x, y))
    thread.start()
    return thread


def wait(threads):
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()


def kernel(x):
    y, half = torch.empty_like(x), x.shape[0] // 2
    wait([start(x[rows], y[rows]) for rows in (slice(0, half), slice(half, None))])
    return y
