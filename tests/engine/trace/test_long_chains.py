"""Long and deep modules of honest people are traced in reasonable time, within Python's recursion limits."""

import os
import time

import pytest

from engine.trace import trace
from sol.hardware import load
from sol.report import report

pytestmark = pytest.mark.usefixtures("full_sandbox")

HEAD = "import torch\nimport torch.nn as nn\n"
POINTWISE = """
class Model(nn.Module):
    def forward(self, x):
        for i in range(300):
            x = torch.sigmoid(x) + 0.5
        return x
inputs = [torch.randn(8, 64)]
"""
EXPRESSION = f"""
class Model(nn.Module):
    def forward(self, x):
        return x{".sigmoid()" * 600}
inputs = [torch.randn(8, 64)]
"""
SEQUENTIAL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(m for _ in range(100) for m in (nn.Linear(32, 32), nn.ReLU())))
    def forward(self, x):
        return self.net(x)
inputs = [torch.randn(8, 32)]
"""
NESTED = """
class Block(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.inner = Block(depth - 1) if depth else nn.ReLU()
    def forward(self, x):
        return self.inner(self.linear(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = Block(199)
    def forward(self, x):
        return self.blocks(x)
inputs = [torch.randn(8, 16)]
"""
TRANSFORMED = """
class Model(nn.Module):
    def forward(self, x):
        def row(r):
            for _ in range(600):
                r = torch.sin(r)
            return r
        return torch.vmap(row)(x)
inputs = [torch.randn(8, 16)]
"""


@pytest.mark.parametrize(
    ("text", "ops"),
    [(POINTWISE, 600), (EXPRESSION, 600), (SEQUENTIAL, 200), (NESTED, 201), (TRANSFORMED, 600)],
    ids=["pointwise", "expression", "sequential", "nested", "transformed"],
)
def test_a_long_module_is_traced(text, ops):
    times = os.times()
    graph = trace(HEAD + text, timeout=120).graph
    assert len(graph.ops) == ops
    start = time.process_time()
    assert report(graph, load("h200")).totals["bytes"] > 0
    assert time.process_time() - start < 20
    now = os.times()
    assert now.children_user + now.children_system - times.children_user - times.children_system < 60
