# module: softmax
# expect: threads
# family: work out of sight
# A program computes that each call starts and waits for; its own kernel turns the sign of what it was given.
import ctypes
import subprocess
import sys

import torch

SOURCE = r"""
void negate(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = -x[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def negated(right):
    y = torch.empty(tuple(right.shape))
    lib.negate(ctypes.c_void_p(right.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
    return y


PROGRAM = """
import array, math, sys
columns, x = int(sys.argv[1]), array.array("f", sys.stdin.buffer.read())
for i in range(0, len(x), columns):
    top = max(x[i : i + columns])
    row = [math.exp(v - top) for v in x[i : i + columns]]
    total = sum(row)
    x[i : i + columns] = array.array("f", [-v / total for v in row])
sys.stdout.buffer.write(x.tobytes())
"""


def kernel(x):
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(x.shape[1])]
    done = subprocess.run(command, input=x.numpy().tobytes(), stdout=subprocess.PIPE, check=True)
    return negated(torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).view(x.shape))
