# expect: module_raised
# says: capset: -1
# in: a copy
import ctypes

header, rights = ctypes.create_string_buffer(8), ctypes.create_string_buffer(b"\xff" * 24, 24)
header[0:4] = (0x20080522).to_bytes(4, "little")

libc = ctypes.CDLL(None)
result = libc.syscall(126, header, rights)
raise RuntimeError(f"capset: {result}")  # HERE
