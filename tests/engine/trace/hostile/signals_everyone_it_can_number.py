# expect: module_raised
# says: only its own
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
alive = [pid for pid in range(1, 40_000) if libc.kill(pid, 0) == 0]
raise RuntimeError("only its own" if len(alive) < 6 else f"LEAK {alive}")  # HERE
