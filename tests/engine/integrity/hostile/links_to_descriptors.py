# Reaches out through /proc/self/fd and /proc/1/root.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for path in (
    b"/proc/1/root/ucutlass-was-here",
    b"/proc/self/root/ucutlass-was-here",
    b"/proc/self/cwd/../ucutlass-was-here",
):
    libc.open(path, 0o101, 0o666)


def kernel(x):
    return x
