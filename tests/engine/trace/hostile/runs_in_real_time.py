# expect: module_raised
# says: sched_setscheduler: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.sched_setscheduler(0, 1, ctypes.byref(ctypes.c_int(50)))
raise RuntimeError(f"sched_setscheduler: {result}")  # HERE
