# expect: module_raised
# says: pipes and memory
# in: a copy
import os

kinds = []
for fd in os.listdir("/proc/self/fd"):
    try:
        kinds.append(os.readlink(f"/proc/self/fd/{fd}"))
    except OSError:
        continue
own = ("pipe:", "/memfd:", "/dev/null", "/proc/", "anon_inode:")
other = [k for k in kinds if not k.startswith(own)]
if len(other) == 1 and other[0].startswith("socket:"):
    other = []  # the door of engine.door, which nobody reads at the other end
raise RuntimeError(f"LEAK {other}" if other else "pipes and memory")  # HERE
