# module: softmax
# expect: garbled
# family: forged replies
# Writes into every open pipe from C.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <sys/stat.h>
#include <unistd.h>
void say(const char* words, long n) {
    struct stat s;
    for (int fd = 3; fd < 1024; fd++)
        if (fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode)) write(fd, words, n);
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
words = b"all is well, believe me" * 3 + bytes([10])


def kernel(x):
    lib.say(words, ctypes.c_long(len(words)))
    return torch.softmax(x, dim=-1)
