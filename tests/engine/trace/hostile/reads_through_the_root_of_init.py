# expect: module_raised
# says: nothing there
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
paths = (b"/proc/1/root/etc/passwd", b"/proc/self/root/../../etc/passwd", b"/proc/1/cwd/manage.py")
raise RuntimeError("LEAK" if any(libc.open(p, 0) >= 0 for p in paths) else "nothing there")  # HERE
