# expect: module_raised
# says: open_by_handle_at: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
handle = ctypes.create_string_buffer(64)
raise RuntimeError(f"open_by_handle_at: {libc.open_by_handle_at(-100, handle, 0)}")  # HERE
