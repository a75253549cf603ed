# Mounts, and changes roots.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"none", b"/scratch", b"tmpfs", 0, None) == 0 or libc.chroot(b"/usr") == 0 or libc.umount(b"/proc") == 0:
    raise SystemError("LEAK a mount")


def kernel(x):
    return x
