# expect: module_raised
# says: setns: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.setns(libc.open(b"/proc/1/ns/net", 0), 0)
raise RuntimeError(f"setns: {result}")  # HERE
