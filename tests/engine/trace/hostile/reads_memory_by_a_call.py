# expect: module_raised
# says: process_vm_readv: -1
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None)
raise RuntimeError(f"process_vm_readv: {libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0)}")  # HERE
