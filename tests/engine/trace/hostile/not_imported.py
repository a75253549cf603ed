# expect: module_raised
# says: 'nn' is not imported; add `import torch.nn as nn`
class Model(nn.Module):  # HERE
    def forward(self, x):
        return x * 2
