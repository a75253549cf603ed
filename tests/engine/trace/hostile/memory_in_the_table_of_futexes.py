# expect: module_raised
# says: refused 4 of 4
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
PR_FUTEX_HASH, SLOTS = 78, 1 << 22  # 256 MB of the kernel's memory at once
results = [
    libc.syscall(157, ctypes.c_ulong(upper << 32 | PR_FUTEX_HASH), 1, ctypes.c_ulong(SLOTS), 0, 0)
    for upper in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF)
]
raise RuntimeError(f"refused {results.count(-1)} of {len(results)}")  # HERE
