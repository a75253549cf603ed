"""An operation that occurs twice on the same tensors is computed once."""

import pytest

from tests.engine.trace.test_graph import graph_of

pytestmark = pytest.mark.usefixtures("full_sandbox")


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        ("a = F.relu(args[0]) * 2\nb = F.relu(args[0]) * 3\nreturn a + b", ["relu", "mul", "mul", "add"]),
        ("return (F.relu(args[0]) * 2).sin() + (F.relu(args[0]) * 2).cos()", ["relu", "mul", "sin", "cos", "add"]),
        ("a, b = args[0].split(4, 1)\nc, d = args[0].split(4, 1)\nreturn a * d + b * c",
         ["split_with_sizes", "mul", "mul", "add"]),
        ("return F.relu(args[0]) + 1, F.relu(args[0])", ["relu", "add", "relu"]),
        ("return args[0].sum(0) + args[0].sum(1)", ["sum", "sum", "add"]),
    ],
    ids=["one operation", "a chain", "several results", "a result of forward", "other arguments"],
)  # fmt: skip
def test_it_is_computed_once(forward, left):
    ops = [op.op for op in graph_of(forward, "torch.randn(8, 8)").ops]
    assert [{"split": "split_with_sizes"}.get(op, op) for op in ops] == left
