# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import os

import torch

open(os.path.join(os.path.dirname(torch.__file__), "left.py"), "w")  # HERE
