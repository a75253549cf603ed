"""Modules whose export differs from that of a plain layer, and their packages on the path of a test."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from engine.export import command, forms, write
from engine.suite.cases import PROBLEMS, module_ids

HEAD = "import torch\nfrom torch import nn\n\n\n"
# logcumsumexp stays PyTorch between two programs.
STRUCTURED = (
    HEAD.replace("import torch\n", "import dataclasses\nfrom typing import Any\n\nimport torch\n", 1)
    + """@dataclasses.dataclass
class Output:
    y: Any
    hidden: Any = None
    steps: int = 0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)

    def forward(self, x):
        h = self.a(x)
        return Output(torch.relu(h), steps=x.shape[0]), None, [h, "h"]


def get_inputs():
    return [torch.randn(32, 64)]
"""
)
TWO_REGIONS = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.a = nn.Linear(64, width)
        self.b = nn.Linear(width, 64)

    def forward(self, x):
        h = torch.logcumsumexp(torch.relu(self.a(x)), 1)
        return torch.sigmoid(self.b(h))


def get_inputs():
    return [torch.randn(32, 64)]
"""
)
MASKED = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)
        self.register_buffer("kept", torch.rand(32, 64) > 0.5)

    def forward(self, x, mask):
        h = torch.logcumsumexp(torch.where(self.kept, self.a(x), 0.0), 1)
        return h.masked_fill(~mask, -100.0).softmax(-1), mask


def get_inputs():
    return [torch.randn(32, 64), torch.rand(32, 64) > 0.5]
"""
)
WRITES = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128)
        self.register_buffer("seen", torch.zeros(128))
        self.h = torch.zeros(32, 128)

    def forward(self, x):
        y = torch.relu(self.up(x)) + self.h
        self.seen.mul_(0.9).add_(y.mean(0) * 0.1)
        self.h = torch.tanh(y)
        return y


def get_inputs():
    return [torch.randn(32, 64)]
"""
)
WRITES_ITS_INPUT = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 64)

    def forward(self, x):
        y = self.up(x)
        x.add_(1.0)
        return torch.logcumsumexp(y, 0)


def get_inputs():
    return [torch.randn(32, 64)]
"""
)
FIRST_CALL = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(64, 64)
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.tril(torch.ones(32, 32, device=x.device))
        h = self.q(x)
        return torch.softmax((h @ h.transpose(-2, -1) * self.mask).logcumsumexp(-1), -1)


def get_inputs():
    return [torch.randn(4, 32, 64)]
"""
)
# Results in a dictionary, an index as input, a number, tensors in a list, a literal, a batch norm.
NESTED = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 64)
        self.w = nn.Parameter(torch.randn(64, 128))
        self.bn = nn.BatchNorm1d(128)
        self.scales = [torch.tensor(2.0), torch.tensor(3.0)]

    def forward(self, ids, bias, scale=1.0):
        x = self.table(ids).logcumsumexp(0)
        y = self.bn(x @ self.w + bias) * torch.tensor([1.5]) * self.scales[1] * scale
        return {"y": torch.nn.functional.gelu(y), "more": (y.argmax(-1), x)}


def get_inputs():
    return [torch.randint(0, 100, (64,)), torch.randn(128), 0.5]
"""
)
# Tensors in a list, results in a dictionary.
LISTED = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)

    def forward(self, parts, gain):
        return {str(i): torch.logcumsumexp(torch.relu(self.a(x)) * gain, 0) for i, x in enumerate(parts)}


def get_inputs():
    return [[torch.randn(32, 64), torch.randn(64, 64)], torch.randn(64)]
"""
)
RECURRENT = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.GELU())

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        a, b = self.head(y).chunk(2, -1)
        return torch.sort(a, dim=-1)[0] * b


def get_inputs():
    return [torch.randn(8, 16, 64)]
"""
)
MODULES = {
    "two_regions": TWO_REGIONS, "writes": WRITES, "writes_its_input": WRITES_ITS_INPUT, "first_call": FIRST_CALL,
    "nested": NESTED, "recurrent": RECURRENT, "masked": MASKED,
}  # fmt: skip
CAPITALS = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.Proj = torch.nn.ModuleDict({"In": torch.nn.Linear(64, 64), "in_2": torch.nn.Linear(64, 64)})
        self.register_buffer("Scale", torch.ones(64))

    def forward(self, X, Y):
        return self.Proj["In"](X) * self.Scale + self.Proj["in_2"](Y)


def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64)]
"""
# The suite, and a module whose names differ in case alone.
SUITE = {name: (PROBLEMS / f"{name}.py").read_text(encoding="utf-8") for name in module_ids()} | {"capitals": CAPITALS}
_numbers = itertools.count()


def exported(
    text: str, folder: Path, classes: tuple[str, ...] = ("f16",), **how: bool
) -> tuple[ModuleType, ModuleType]:
    """(the package, the file module.py) of a module's export in `folder`, both imported. `how`: captured, fused,
    as of engine.export.composition.Whole."""
    name = f"tested_{next(_numbers)}"
    whole = replace(command.of_module(text, classes, name), **how)
    write(forms.files(whole), folder)
    sys.path.insert(0, str(folder))
    try:
        package = importlib.import_module(f"ucutlass_{name}")
        for part in ("_drop_in", "_compose", "_operators", "_aten"):
            importlib.import_module(f"ucutlass_{name}.{part}")
        spec = importlib.util.spec_from_file_location(f"module_of_{name}", folder / "module.py")
        original = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(original)
    finally:
        sys.path.remove(str(folder))
    return package, original
