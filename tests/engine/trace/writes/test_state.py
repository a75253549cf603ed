"""Plain attributes that a call changes: a tensor that the next call reads is state, and what only the first call makes
is there already. A module whose later calls compute something else is refused with the line."""

import pytest

pytest.importorskip("torch")

from tests.engine.trace.test_edges import graph, ops, refused
from tests.engine.trace.test_graph import module
from tests.engine.traced import in_copies

INIT = """\
self.h = torch.zeros(8, 8)
self.small = torch.zeros(1)
self.none = None
self.step = 0
self.items = []
self.pair = [torch.zeros(8, 8)]"""


def traced(forward):
    return graph(forward, init=INIT)


@pytest.mark.parametrize(
    "forward",
    [
        "self.h = torch.tanh(args[0] + self.h)\nreturn self.h * 2",
        "self.h.mul_(0.5).add_(args[0])\nreturn self.h * 2",
        "y = args[0] - self.h\nself.h = args[0]\nreturn y",
    ],
)
def test_a_hidden_state_that_is_a_plain_attribute_is_written_like_a_buffer(forward):
    g = traced(forward)
    assert g.writes == ("h",) and (g.tensors["h"].kind, g.tensors["h"].path) == ("buffer", "h")
    assert not g.settled


@pytest.mark.parametrize(
    "forward",
    [
        "self.h = args[0] * 2\nreturn self.h",
        "self.none = args[0] * 2\nreturn self.none",
        "self.items.append(args[0])\nreturn args[0] * 2",
        "self.step += 1\nreturn args[0] * 2",
    ],
)
def test_what_no_later_call_reads_is_no_state(forward):
    g = traced(forward)
    assert ops(g) == ["mul"] and g.writes == ()


def test_what_the_first_call_makes_is_a_constant_of_the_later_ones():
    g = traced("if self.none is None:\n    self.none = torch.ones(8, 8).tril()\nreturn args[0] * self.none")
    assert ops(g) == ["mul"] and g.settled
    assert (g.tensors["none"].kind, g.tensors["none"].path) == ("constant", "none")


@pytest.mark.parametrize(
    ("forward", "line", "name"),
    [
        ("self.step += 1\nreturn args[0] * self.step", 10, "step"),
        ("y = args[0] * 2\nself.items.append(y)\nreturn torch.cat(self.items)", 11, "items"),
        ("self.pair[0] = torch.tanh(args[0] + self.pair[0])\nreturn self.pair[0] * 2", 10, "pair"),
        ("old = 0 if self.none is None else self.none\nself.none = torch.tanh(args[0] + old)\nreturn self.none", 11,
         "none"),
    ],
)  # fmt: skip
def test_a_module_whose_later_calls_compute_something_else_is_refused_with_its_line_and_a_way_out(forward, line, name):
    bad = refused(forward, init=INIT)
    at = line + INIT.count("\n")  # the lines of __init__ stand before those of forward
    assert (bad.code, bad.line) == ("writes", at)
    assert f"Line {at}, `" in bad.reason and f"changes the module's attribute {name}," in bad.reason
    assert f"self.register_buffer('{name}', torch.zeros(...)) in __init__" in bad.reason


def test_a_state_that_grows_is_refused_with_the_shape_to_start_with():
    bad = refused("self.small = torch.tanh(args[0] + self.small)\nreturn self.small", init=INIT)
    assert bad.code == "writes" and "Start with a tensor of float32 [8, 8]" in bad.reason


def test_a_state_that_is_filled_and_then_replaced_needs_no_memory():
    """torch.export fails over such a tensor while it is fake; real tensors took 30 s for a wide layer."""
    text = module("self.h.copy_(args[0])\nself.h = torch.tanh(self.h)\nreturn self.h * 2", "torch.randn(8, 8)", INIT)
    traced = in_copies(text)
    assert traced.has["fake"] and traced.graph.writes == ("h",) and ops(traced.graph) == ["copy", "tanh", "mul"]
