# expect: syntax_error
# says: Line
import torch


class Model(torch.nn.Module)  # HERE
    pass
