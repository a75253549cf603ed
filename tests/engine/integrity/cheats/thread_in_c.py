# module: softmax
# expect: threads late
# family: work out of sight
# A thread of C does the work after the call.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
#include <pthread.h>
#include <unistd.h>
static const float* in;
static float* out;
static long m, n;
static void* work(void* nothing) {
    usleep(5000);
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, in[i * n + j]);
        for (long j = 0; j < n; j++) sum += out[i * n + j] = expf(in[i * n + j] - top);
        for (long j = 0; j < n; j++) out[i * n + j] /= sum;
    }
    return 0;
}
void softmax(const float* x, float* y, long rows, long columns) {
    pthread_t thread;
    in = x, out = y, m = rows, n = columns;
    pthread_create(&thread, 0, work, 0);
    pthread_detach(thread);
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x):
    y = torch.empty_like(x)
    lib.softmax(*pointers(x, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return y
