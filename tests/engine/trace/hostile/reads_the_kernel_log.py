# expect: module_raised
# says: klogctl: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
raise RuntimeError(f"klogctl: {libc.klogctl(3, ctypes.create_string_buffer(4096), 4096)}")  # HERE
