# expect: module_raised
# says: only code
# in: a copy
import os

names = set(os.listdir("/app"))
raise RuntimeError("only code" if names == {"engine", "sol", "dsl"} else f"LEAK {names}")  # HERE
