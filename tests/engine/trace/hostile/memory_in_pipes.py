# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
reads, writes = os.pipe()
if libc.vmsplice(writes, ctypes.create_string_buffer(16), 1, 0) < 0:
    raise OSError(ctypes.get_errno(), "no pages for a pipe")  # HERE
