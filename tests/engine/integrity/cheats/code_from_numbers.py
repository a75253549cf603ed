# module: softmax
# expect: hidden_code
# family: hidden code
# Its text as numbers.
import torch

text = "".join(map(chr, [100, 101, 102, 32, 102, 40, 120, 41, 58, 32, 114, 101, 116, 117, 114, 110, 32, 120]))
names = {}
exec(text, names)


def kernel(x):
    return torch.softmax(names["f"](x), dim=-1)
