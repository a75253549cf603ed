# expect: module_raised
# says: no device
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
paths = (b"/dev/mem", b"/dev/kmem", b"/dev/kmsg", b"/dev/sda", b"/dev/vda", b"/dev/nvme0n1", b"/dev/port")
raise RuntimeError("LEAK" if any(libc.open(p, 0) >= 0 for p in paths) else "no device")  # HERE
