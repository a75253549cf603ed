# expect: memory_limit
# says: Tensor x has an axis of 1.1e+12 elements
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


inputs = [torch.empty(2**40, 8, device="meta")]
