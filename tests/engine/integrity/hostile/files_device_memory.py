# Opens the machine's memory and disks.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for path in (b"/dev/mem", b"/dev/kmem", b"/dev/sda", b"/dev/nvme0n1", b"/dev/vda", b"/proc/kcore"):
    if libc.open(path, 2) >= 0:
        raise SystemError(f"LEAK {path}")


def kernel(x):
    return x
