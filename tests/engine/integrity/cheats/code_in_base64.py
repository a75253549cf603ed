# module: softmax
# expect: hidden_code
# family: hidden code
# Hides what it calls.
import base64

import torch

NAME = base64.b64decode("c29mdG1heA==").decode()


def kernel(x):
    return getattr(torch, NAME)(x, dim=-1)
