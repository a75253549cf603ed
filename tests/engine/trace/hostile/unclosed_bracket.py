# expect: syntax_error
# says: was never closed
import torch


x = torch.randn(4, (8  # HERE
