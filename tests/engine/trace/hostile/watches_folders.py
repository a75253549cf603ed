# expect: module_raised
# says: nothing happened
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
for path in (b"/app", b"/usr", b"/proc"):
    libc.inotify_add_watch(fd, path, 0xFFF)
try:
    seen = os.read(fd, 4096)
except BlockingIOError:
    seen = b""
raise RuntimeError("LEAK" if seen else "nothing happened")  # HERE
