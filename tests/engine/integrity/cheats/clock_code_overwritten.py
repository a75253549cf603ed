# module: softmax
# expect: patched
# family: clocks
# A constructor in C that writes another clock_gettime over the one of libc.
import ctypes
import subprocess

import torch

SOURCE = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int no_time(clockid_t clock, struct timespec* t) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(clock), "S"(t) : "rcx", "r11", "memory");
    t->tv_nsec -= t->tv_nsec % 100000000;
    return result;
}
__attribute__((constructor)) static void overwrite(void) {
    char* at = (char*)&clock_gettime;
    void* to = (void*)no_time;
    char jump[12] = {0x48, (char)0xb8, 0, 0, 0, 0, 0, 0, 0, 0, (char)0xff, (char)0xe0};
    memcpy(jump + 2, &to, 8);
    syscall(SYS_mprotect, (void*)((uintptr_t)at & ~4095ul), 8192, 7);
    memcpy(at, jump, sizeof jump);
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(x):
    return torch.softmax(x, dim=-1)
