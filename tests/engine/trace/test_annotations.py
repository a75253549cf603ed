"""Annotations of a pasted text are what its author wrote: types that decorators read, and strings only if they ask."""

import pytest

torch = pytest.importorskip("torch")

from engine.trace import trace  # noqa: E402

MODULE = """{first}
import torch

def fields(cls):
    cls.size = sum({each} for kind in cls.__annotations__.values())
    return cls

@fields
class Storage:
    a: float
    b: float

class Model(torch.nn.Module):
    def forward(self, x):
        return x * Storage.size

def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.parametrize(
    ("first", "each"), [("", "kind(1.5)"), ("from __future__ import annotations", "len(kind) / 5 + 0.5")]
)
def test_a_decorator_reads_the_types(first, each):
    graph = trace(MODULE.format(first=first, each=each), local_user=True).graph
    assert [op.attrs.get("other") for op in graph.ops] == [3.0], graph.ops
