"""What fake tensors need for modules of real ones to be traced without memory."""

import pytest

from tests.engine.trace.test_graph import graph_of, module
from tests.engine.traced import in_copies

pytestmark = pytest.mark.usefixtures("full_sandbox")


@pytest.mark.parametrize(
    ("product", "inputs", "shape"),
    [
        ("torch._grouped_mm(F.linear(args[0], self.w), args[1], args[2])", "(8, 16), (2, 16, 24)", (8, 24)),
        ("torch._grouped_mm(F.linear(args[0], self.w), args[1], args[2])", "(16, 16), (16, 8)", (2, 16, 8)),
        ("torch._grouped_mm(F.linear(args[0], self.w), args[1])", "(2, 4, 16), (2, 16, 8)", (2, 4, 8)),
        ("torch._grouped_mm(F.linear(args[0], self.w), args[1], args[2])", "(2, 4, 16), (16, 8)", (4, 8)),
    ],
    ids=["rows", "sums", "batches", "columns"],
)
def test_grouped_products_have_shapes_in_float32(product, inputs, shape):
    """PyTorch's own function of the shapes takes bfloat16 alone, and its kernels any type."""
    a, b = inputs.replace("), (", ")|(").split("|")
    tensors = f"torch.randn{a}, torch.randn{b}, torch.tensor([4, 8], dtype=torch.int32)"
    grouped = graph_of(f"return {product}", tensors, "self.w = nn.Parameter(torch.randn(16, 16))")
    assert [op.op for op in grouped.ops] == ["linear", "_grouped_mm"]
    assert grouped.tensors[grouped.outputs[0]].shape == shape


@pytest.mark.parametrize("bounds", ["", ", a=-0.01, b=0.01"], ids=["wide", "narrow"])
def test_weights_of_a_truncated_normal_need_no_real_tensors(bounds):
    """PyTorch reads them to draw again what is out of bounds; a large vision transformer would be built in full."""
    init = f"self.l = nn.Linear(16, 16)\nnn.init.trunc_normal_(self.l.weight, std=0.02{bounds})"
    traced = in_copies(module("return self.l(args[0])", "torch.randn(4, 16)", init))
    assert traced.has["fake"] is True
