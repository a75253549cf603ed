"""Max pools whose windows leave elements out, along one, two and three axes; one of them rounds its size up."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.MaxPool1d(4, stride=1, padding=1, dilation=3)
        self.plane = nn.MaxPool2d((3, 2), stride=2, padding=(1, 0), dilation=(2, 3), ceil_mode=True)
        self.volume = nn.MaxPool3d(3, stride=2, padding=1, dilation=3)

    def forward(self, line, plane, volume):
        return self.line(line), F.relu(self.plane(plane)) * 0.5, self.volume(volume)


def get_inputs():
    return [torch.randn(4, 8, 65), torch.randn(2, 8, 31, 34), torch.randn(2, 4, 13, 14, 15)]
