# expect: module_raised
# says: raised ValueError: not today
import torch

raise ValueError("not today")  # HERE
