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
