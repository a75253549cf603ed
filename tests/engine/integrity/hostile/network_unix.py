# Connects to the daemons of the machine.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import struct

for path in (b"/var/run/docker.sock", b"/run/dbus/system_bus_socket", b"\0/tmp/.X11-unix/X0"):
    fd = libc.socket(1, 1, 0)
    if fd >= 0 and libc.connect(fd, struct.pack("=H108s", 1, path), 110) == 0:
        raise SystemError(f"LEAK {path}")


def kernel(x):
    return x
