# expect: patched_module
# Leaves libraries for the next process to load.
import os

os.environ["LD_PRELOAD"] = "/scratch/evil.so"
os.environ["PYTHONSTARTUP"] = "/scratch/evil.py"
os.environ["PYTHONPATH"] = "/scratch"
open("/scratch/torch.py", "w").write("raise SystemExit")


def kernel(x):
    return x
