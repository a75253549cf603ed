"""A module whose program would have more words than the language reads becomes several programs."""

import json

import torch
from torch import nn

from dsl.printer import to_text
from dsl.syntax import MAX_TOKENS, words
from engine.devices import Problem
from engine.strategies.problem import CHOICES, prepare
from engine.trace.capture import Capture
from engine.trace.exported import export
from sol.graph import OpGraph
from sol.hardware import load


class Deep(nn.Module):
    def __init__(self, depth=110):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(256, 256) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def test_no_program_outgrows_the_language_with_its_choices_written_out():
    graph = Capture(export(Deep().half().eval(), (torch.randn(512, 256).half(),))).graph()
    problem = prepare(Problem("", "module", OpGraph.from_json(json.dumps(graph))), ("f16",), load("h200"))
    texts = [to_text(part.base) for part in problem.parts]
    assert len(texts) > 1
    assert all(words(text) + CHOICES * text.count("gemm(") <= MAX_TOKENS for text in texts)
    assert sum(text.count("gemm(") for text in texts) == 110, "and none is left to PyTorch"


class Block(nn.Module):
    """As timm writes it: the heads of one projection, taken apart by `unbind`."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.after, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(4, 128, 3, 2, 32).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(4, 128, 64))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


def test_a_cut_leaves_each_attention_whole_with_what_shows_it_heads():
    module = nn.Sequential(*(Block() for _ in range(16))).half().eval()
    graph = Capture(export(module, (torch.randn(4, 128, 64).half(),))).graph()
    problem = prepare(Problem("", "module", OpGraph.from_json(json.dumps(graph))), ("f16",), load("h200"))
    assert problem.uncovered == () and len(problem.parts) > 1
    texts = [to_text(part.base) for part in problem.parts]
    assert sum(text.count("attention(") for text in texts) == 16
    assert not any("permute" in text for text in texts), "heads are read where the projection wrote them"
