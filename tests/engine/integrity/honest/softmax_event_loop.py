# module: softmax
# family: work out of sight
# Launches halves as tasks of an event loop, which ends with the call.
import asyncio
import ctypes
import subprocess

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
    own.softmax(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))


async def part(x, y):
    await asyncio.sleep(0)
    launch(x, y)


async def parts(x, y):
    middle = x.shape[0] // 2
    await asyncio.gather(part(x[:middle], y[:middle]), asyncio.to_thread(launch, x[middle:], y[middle:]))


def kernel(x):
    y = torch.empty_like(x)
    asyncio.run(parts(x, y))
    return y
