"""A mask of attention is recognised by its values, in fake and in real tensors, wherever it was made."""

import pytest

pytest.importorskip("torch")

import torch

from engine.trace.capture import Capture
from engine.trace.exported import export
from tests.engine.trace.test_graph import graph_of

pytestmark = pytest.mark.usefixtures("full_sandbox")

N = 32
CAUSAL = (N + 1) / (2 * N)
INPUTS = f"torch.randn(2, {N}, 16), torch.randn(2, 16, {N}), torch.randn(2, {N}, 16)"
BUFFER = "self.register_buffer('m', {})"
FILLED = "q, k, v = args\ns = q @ k\ns = {}\nreturn s.softmax(-1) @ v"
ONES = f"torch.ones({N}, {N})"


def shares(forward, init="pass"):
    return [op.unmasked for op in graph_of(FILLED.format(forward), INPUTS, init).ops if op.unmasked != 1]


LOWER, UPPER = f"torch.tril({ONES})", f"torch.triu({ONES}, diagonal=1)"
ADDED = f"torch.triu(torch.full(({N}, {N}), float('-inf')), diagonal=1)"
BAND = f"torch.tril({ONES}) * torch.triu({ONES}, diagonal=-3)"
MASKS = {
    "zeros of a lower triangle": ("s.masked_fill(self.m == 0, float('-inf'))", BUFFER.format(LOWER), CAUSAL),
    "an upper triangle": ("s.masked_fill(self.m.bool(), -1e9)", BUFFER.format(UPPER), CAUSAL),
    "in place": ("s.masked_fill_(self.m.bool(), float('-inf'))", BUFFER.format(UPPER), CAUSAL),
    "a slice of a larger one": (
        f"s.masked_fill(self.m[None, :{N}, :{N}] == 0, float('-inf'))",
        BUFFER.format("torch.tril(torch.ones(99, 99))"), CAUSAL,
    ),
    "where": ("torch.where(self.m.bool(), s, -1e30)", BUFFER.format(LOWER), CAUSAL),
    "where, of a tensor": (
        "torch.where(self.m.bool(), s, torch.full([], torch.finfo(s.dtype).min))", BUFFER.format(LOWER), CAUSAL,
    ),
    "where, the other way": ("torch.where(self.m.bool(), float('-inf'), s)", BUFFER.format(UPPER), CAUSAL),
    "added": ("s / 4 + self.m", BUFFER.format(ADDED), CAUSAL),
    "taken away": ("s - self.m * 1e9", BUFFER.format(UPPER), CAUSAL),
    "a band, by its values": ("s.masked_fill(self.m == 0, float('-inf'))", BUFFER.format(BAND), (4 * N - 6) / N**2),
    "made in forward": (f"s.masked_fill({UPPER}.bool(), float('-inf'))", "pass", CAUSAL),
    "made of positions": (
        f"s.masked_fill(torch.arange({N})[:, None] < torch.arange({N})[None], float('-inf'))", "pass", CAUSAL,
    ),
    "an attribute": ("s.masked_fill(self.m == 0, float('-inf'))", f"self.m = {LOWER}", CAUSAL),
    "filled row by row": (
        "s.masked_fill(self.m == 0, float('-inf'))",
        f"m = torch.zeros({N}, {N})\nfor i in range({N}):\n    m[i, :i + 1] = 1\nself.register_buffer('m', m)", CAUSAL,
    ),
    "from numpy": (
        "s.masked_fill(self.m == 0, float('-inf'))",
        f"import numpy\nself.register_buffer('m', torch.from_numpy(numpy.tril(numpy.ones(({N}, {N})))))", CAUSAL,
    ),
    "in a constructor that reads values": (
        "s.masked_fill(self.m == 0, float('-inf'))", f"{BUFFER.format(LOWER)}\nassert self.m.sum().item() > 3", CAUSAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_the_share_that_a_mask_leaves_is_that_of_its_values(name):
    forward, init, share = MASKS[name]
    assert shares(forward, init) == [pytest.approx(share)]


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        ("s.masked_fill(self.m == 0, 0.0)", BUFFER.format(LOWER)),
        ("s.masked_fill(self.m == 0, float('-inf'))", BUFFER.format(f"torch.rand({N}, {N}).round()")),
        ("s.masked_fill(self.m == 0, float('-inf'))", BUFFER.format(f"torch.triu({ONES}, diagonal=1)")),
        ("s.masked_fill(s < 0, float('-inf'))", "pass"),
        ("s + self.m", BUFFER.format(f"torch.randn({N}, {N})")),
        ("(s + self.m).tanh()", BUFFER.format(ADDED)),
        ("s.masked_fill(self.m == 0, float('-inf')) * self.m.add_(0)", BUFFER.format(LOWER)),
        ("s.masked_fill(self.m == 0, float('-inf'))", f"self.m = nn.Parameter({LOWER})"),
    ],
    ids=[
        "another filling", "random", "a row without scores", "by the scores", "a bias",
        "no softmax next", "written in forward", "a weight",
    ],
)  # fmt: skip
def test_no_share_is_assumed_without_a_constant_mask(forward, init):
    assert shares(forward, init) == []


def test_the_mask_of_pytorchs_attention():
    forward = "return F.scaled_dot_product_attention(args[0], args[1], args[2], attn_mask=self.m)"
    inputs = ", ".join([f"torch.randn(2, 3, {N}, 16)"] * 3)
    graph = graph_of(forward, inputs, BUFFER.format(f"{LOWER}.bool()"))
    assert [op.unmasked for op in graph.ops if op.op == "scaled_dot_product_attention"] == [pytest.approx(CAUSAL)]


ATTENTION = "return F.scaled_dot_product_attention(args[0], args[1], args[2], attn_mask={})"
HEADS = ", ".join([f"torch.randn(2, 3, {N}, 16)"] * 3)


def attention(graph):
    """How many tensors PyTorch's attention reads, and whether it is causal."""
    (op,) = (op for op in graph.ops if op.op == "scaled_dot_product_attention")
    return len(op.inputs), op.attrs["is_causal"]


KEEP = BUFFER.replace("{})", "{}, persistent=False)")
PLACES = f"torch.arange({N})"


@pytest.mark.parametrize(
    ("mask", "init", "reads"),
    [
        (f"({PLACES}[None, None, :, None] >= 0).expand(2, 1, {N}, {N})", "pass", 3),
        (f"torch.ones(2, {N}, dtype=torch.bool)[:, None, None]", "pass", 3),
        (f"torch.zeros(1, 1, {N}, {N})", "pass", 3),
        ("self.m", KEEP.format(f"{ONES}.bool()"), 3),
        ("self.m", BUFFER.format(f"{ONES}.bool()"), 4),
        ("self.m", f"self.m = {ONES}.bool()", 4),
        ("self.m", KEEP.format(f"{BAND}.bool()"), 4),
        ("self.m", KEEP.format(ONES), 4),
        ("args[0].sum() * torch.zeros(1, 1)", "pass", 4),
    ],
    ids=[
        "of positions", "of ones", "zeros added", "a buffer", "a buffer that weights bring", "an attribute", "a band",
        "ones added", "of the inputs",
    ],
)  # fmt: skip
def test_pytorchs_attention_reads_no_mask_that_changes_nothing(mask, init, reads):
    graph = graph_of(ATTENTION.format(mask), HEADS, init)
    assert attention(graph) == (reads, False)
    assert reads == 4 or {op.op for op in graph.ops} == {"scaled_dot_product_attention"}, "what made the mask is gone"


@pytest.mark.parametrize(
    ("mask", "init"),
    [
        (f"{PLACES}[:, None] >= {PLACES}", "pass"),
        ("self.m", KEEP.format(f"{LOWER}.bool()")),
        ("self.m", KEEP.format(ADDED)),
    ],
    ids=["of positions", "a buffer", "added"],
)
def test_pytorchs_attention_is_causal_where_its_mask_is(mask, init):
    assert attention(graph_of(ATTENTION.format(mask), HEADS, init)) == (3, True)


@pytest.mark.parametrize(
    ("forward", "init", "left"),
    [
        ("s.masked_fill(self.m == 0, float('-inf'))", KEEP.format(ONES), []),
        ("torch.where(self.m.bool(), s, -1e30)", KEEP.format(ONES), []),
        ("torch.where(self.m.bool(), float('-inf'), s)", KEEP.format(f"torch.zeros({N}, {N})"), []),
        (f"s + torch.where({PLACES} < 0, -1e30, 0.0)", "pass", []),
        (f"torch.zeros({N}, {N}) + s", "pass", []),
        (f"s - torch.zeros({N}, {N})", "pass", []),
        ("s.masked_fill(self.m == 0, float('-inf'))", BUFFER.format(ONES), ["eq", "masked_fill"]),
        (f"torch.zeros({N}, {N}) - s", "pass", ["sub", "zeros"]),
        (f"s[:1] + torch.zeros(2, {N}, {N})", "pass", ["add", "slice", "zeros"]),
        (f"s + torch.full(({N}, {N}), -1.0)", "pass", ["add", "full"]),
    ],
    ids=[
        "filled", "where", "where, the other way", "added", "added to", "taken away", "weights bring it",
        "the scores turned", "of more rows", "a bias",
    ],
)  # fmt: skip
def test_a_written_out_mask_that_changes_nothing_is_gone(forward, init, left):
    graph = graph_of(FILLED.format(forward), INPUTS, init)
    assert sorted({op.op for op in graph.ops} - {"matmul", "softmax", "to"}) == left


def test_zeros_are_a_mask_wherever_they_are_added_and_what_forward_returns_stays():
    forward = f"zeros = torch.zeros({N}, {N})\nreturn (args[0] + zeros) * 2, args[1] + zeros"
    ops = graph_of(forward, ", ".join([f"torch.randn({N}, {N})"] * 2)).ops
    assert sorted(op.op for op in ops) == ["add", "mul", "zeros"]


@pytest.mark.parametrize(("mask", "causal"), [(LOWER, True), (BAND, False), (f"torch.tril({ONES}, diagonal=1)", False)])
def test_a_mask_is_causal_if_it_leaves_the_diagonal_and_all_below(mask, causal):
    graph = graph_of(FILLED.format("s.masked_fill(self.m == 0, float('-inf'))"), INPUTS, BUFFER.format(mask))
    assert [op.causal for op in graph.ops if op.unmasked != 1] == [causal]


def test_a_causal_mask_that_changes_the_scores_which_it_leaves_is_not_one():
    biased = f"torch.triu(torch.full(({N}, {N}), float('-inf')), diagonal=1) - torch.tril({ONES})"
    graph = graph_of(FILLED.format("s + self.m"), INPUTS, BUFFER.format(biased))
    assert [(op.unmasked, op.causal) for op in graph.ops if op.unmasked != 1] == [(CAUSAL, False)]


def test_no_value_is_made_for_a_sum_that_is_no_mask():
    """A residual network adds at every block, and has four buffers in each."""
    block = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)).eval()
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: x + self.block(x)})()
    model.block = block
    asked = []
    Capture(export(model, (torch.randn(2, 8, 9, 9),)), asked.append).graph()
    assert asked == []
