"""Small networks with the in-place activations of torchvision's: ResNet, DenseNet and MobileNet, as pasted text.

In-place operations make tracing decompose the exported program, which spells batch norm another way.
"""

_HEAD = """\
import torch
import torch.nn as nn


class Conv(nn.Sequential):
    def __init__(self, n, m, k=3, groups=1, act=nn.ReLU):
        super().__init__(nn.Conv2d(n, m, k, padding=k // 2, groups=groups, bias=False), nn.BatchNorm2d(m),
                         act(inplace=True))

"""
_TAIL = """

def get_inputs():
    return [torch.randn(2, 16, 16, 16)]
"""

RESNET = f"""{_HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Conv(16, 32), nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.norm, self.down = nn.BatchNorm2d(32), nn.Sequential(nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32))
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(32, 16)

    def forward(self, x):
        y = self.norm(self.b(self.a(x)))
        y += self.down(x)
        y = self.relu(y)
        return self.head(y.mean([2, 3]))
{_TAIL}"""

DENSENET = f"""{_HEAD}
class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.relu, self.conv = nn.BatchNorm2d(n), nn.ReLU(inplace=True), nn.Conv2d(n, 16, 3, padding=1)

    def forward(self, x):
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], 1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Layer(16), Layer(32))
        self.down = nn.Sequential(nn.BatchNorm2d(48), nn.ReLU(inplace=True), nn.Conv2d(48, 16, 1), nn.AvgPool2d(2))

    def forward(self, x):
        return self.down(self.layers(x))
{_TAIL}"""

MOBILENET = f"""{_HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = Conv(16, 64, 1, act=nn.ReLU6)
        self.depth = Conv(64, 64, 3, groups=64, act=nn.ReLU6)
        self.project = nn.Sequential(nn.Conv2d(64, 16, 1, bias=False), nn.BatchNorm2d(16))

    def forward(self, x):
        return x + self.project(self.depth(self.expand(x)))
{_TAIL}"""

ALL = {"resnet": RESNET, "densenet": DENSENET, "mobilenet": MOBILENET}
