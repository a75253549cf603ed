# module: softmax
# family: work out of sight
# Two threads of C, joined before it returns.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
#include <pthread.h>
struct part { const float* x; float* y; long m, n; };
static void* work(void* p) {
    struct part* w = p;
    for (long i = 0; i < w->m; i++) {
        const float* x = w->x + i * w->n;
        float *y = w->y + i * w->n, top = -INFINITY, sum = 0;
        for (long j = 0; j < w->n; j++) top = fmaxf(top, x[j]);
        for (long j = 0; j < w->n; j++) sum += y[j] = expf(x[j] - top);
        for (long j = 0; j < w->n; j++) y[j] /= sum;
    }
    return 0;
}
void softmax(const float* x, float* y, long m, long n) {
    pthread_t thread;
    struct part first = {x, y, m / 2, n}, second = {x + m / 2 * n, y + m / 2 * n, m - m / 2, n};
    pthread_create(&thread, 0, work, &first);
    work(&second);
    pthread_join(thread, 0);
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
