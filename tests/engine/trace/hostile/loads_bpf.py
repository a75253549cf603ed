# expect: module_raised
# says: bpf: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(321, 0, ctypes.create_string_buffer(128), 128)
raise RuntimeError(f"bpf: {result}")  # HERE
