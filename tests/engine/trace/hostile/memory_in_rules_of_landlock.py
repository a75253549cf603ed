# expect: module_raised
# says: refused after 0 rules
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
ports, rule = (ctypes.c_uint64 * 2)(0, 3), (ctypes.c_uint64 * 2)(1, 0)
many = 0
while (rules := libc.syscall(444, ports, 16, 0)) >= 0:
    for port in range(1 << 16):
        rule[1] = port
        many += libc.syscall(445, rules, 2, rule, 0) == 0
raise RuntimeError(f"refused after {many} rules")  # HERE
