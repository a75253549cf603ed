# expect: bad_inputs
# says: contains itself
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x * 2


circle = []
circle.append(circle)
inputs = [torch.randn(4, 8), circle]
