# expect: process_limit
# says: 
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
while True:
    if libc.fork() < 0:  # HERE
        raise OSError(ctypes.get_errno(), "no more processes")  # HERE
