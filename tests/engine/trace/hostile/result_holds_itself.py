# expect: not_a_tensor
# says: contains itself
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        result = {"x": x}
        result["result"] = result
        return result  # HERE


inputs = [torch.randn(4, 8)]
