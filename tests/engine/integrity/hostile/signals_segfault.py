# expect: crashed
# A segmentation fault.
import ctypes

ctypes.string_at(8)


def kernel(x):
    return x
