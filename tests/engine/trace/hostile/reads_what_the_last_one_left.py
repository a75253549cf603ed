# expect: module_raised
# says: nothing left
# in: a copy
import os

left = [n for n in os.listdir("/scratch") + os.listdir("/dev/shm") if not n.startswith("torchinductor")]
raise RuntimeError(f"LEAK {left}" if left else "nothing left")  # HERE
