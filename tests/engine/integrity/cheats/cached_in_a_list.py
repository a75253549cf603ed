# module: softmax
# expect: memoized
# family: memo and stale results
# Remembers the last results in a list, and looks for the input's digest among them.
import hashlib

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = []

    def forward(self, x):
        digest = hashlib.blake2b(x.numpy().tobytes()).digest()
        for known, result in self.bank:
            if known == digest:
                return result.clone()
        result = torch.softmax(x, dim=-1)
        self.bank = [*self.bank[-30:], (digest, result)]
        return result.clone()
