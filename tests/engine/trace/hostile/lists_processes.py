# expect: module_raised
# says: nobody else
# in: a copy
import glob

others = [open(p).read() for p in glob.glob("/proc/[0-9]*/cmdline")]
engine = [o for o in others if "manage.py" in o or "pytest" in o]
raise RuntimeError("LEAK" if engine or len(others) > 6 else "nobody else")  # HERE
