# expect: module_raised
# says: nothing there
# in: a copy
try:
    data = open("/proc/1/environ", "rb").read()
except PermissionError:
    data = b""
raise RuntimeError("LEAK" if b"=" in data else "nothing there")  # HERE
