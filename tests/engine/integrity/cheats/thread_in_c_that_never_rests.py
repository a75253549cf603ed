# module: softmax
# expect: threads
# family: work out of sight
# A thread that works on after the call, which joins another one.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
#include <pthread.h>
static volatile double sum_of_all;
static void* spin(void* nothing) {
    while (1) sum_of_all += 1;
    return 0;
}
static void* rest(void* nothing) { return 0; }
void softmax(const float* x, float* y, long m, long n) {
    static pthread_t first, second;
    if (!first) pthread_create(&first, 0, spin, 0);
    pthread_create(&second, 0, rest, 0);
    pthread_join(second, 0);
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
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
