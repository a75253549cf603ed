# expect: module_raised
# says: no home
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
paths = (b"/root/.ssh/id_rsa", b"/root/.bashrc", b"/home", b"/etc/shadow", b"/etc/hosts", b"/var/log")
raise RuntimeError("LEAK" if any(libc.open(p, 0) >= 0 for p in paths) else "no home")  # HERE
