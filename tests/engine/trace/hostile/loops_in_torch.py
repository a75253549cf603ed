# expect: time_limit
# says: did not end within
import torch
import torch.nn as nn


x = torch.ones(600, 600)
while True:  # HERE
    x = x @ x  # HERE
