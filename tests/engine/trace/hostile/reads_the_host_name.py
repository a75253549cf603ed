# expect: module_raised
# says: it is sandbox
# in: a copy
import os

raise RuntimeError(f"it is {os.uname().nodename}")  # HERE
