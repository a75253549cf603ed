# module: softmax
# family: work out of sight
# Threads that take rows from a queue and are joined, with settings from a copy of its globals.
import ctypes
import queue
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
ROWS = 3
PARTS = dict(globals()).get("ROWS")


def launch(x, y):
    own.softmax(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))


def kernel(x):
    y, starts = torch.empty_like(x), queue.Queue()
    many = max(1, x.shape[0] // PARTS)
    for start in range(0, x.shape[0], many):
        starts.put(start)

    def work():
        while True:
            try:
                start = starts.get_nowait()
            except queue.Empty:
                return
            launch(x[start : start + many], y[start : start + many])

    threads = [threading.Thread(target=work, name="rows") for _ in range(PARTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return y
