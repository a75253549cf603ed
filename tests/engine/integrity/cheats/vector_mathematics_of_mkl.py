# module: softmax
# expect: disguised
# family: library in disguise
# Its exponentials are those of MKL (vsExp).
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
void vsExp(int, const float*, float*);
void run(const float* x, float* y, int rows, int n) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        float top = x[0], sum = 0;
        for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
        for (int i = 0; i < n; i++) y[i] = x[i] - top;
        vsExp(n, y, y);
        for (int i = 0; i < n; i++) sum += y[i];
        for (int i = 0; i < n; i++) y[i] /= sum;
    }
}
"""
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
command += [f"-L{folder}", "-ltorch_cpu", "-Wl,--allow-shlib-undefined"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x):
    y = torch.empty_like(x)
    own.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), x.shape[0], x.shape[1])
    return y
