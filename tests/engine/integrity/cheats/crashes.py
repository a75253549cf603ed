# module: softmax
# expect: crashed
# family: faults
# Reads address zero.
import ctypes


def kernel(x):
    ctypes.string_at(0)
    return x
