# expect: module_raised
# says: no secret
# in: a copy
import glob

found = b""
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        found += open(path, "rb").read()
    except OSError:
        continue
raise RuntimeError("LEAK" if b"sk-secret" in found or b"/root" in found else "no secret")  # HERE
