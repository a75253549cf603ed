# expect: module_raised
# says: perf_event_open: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)
raise RuntimeError(f"perf_event_open: {result}")  # HERE
