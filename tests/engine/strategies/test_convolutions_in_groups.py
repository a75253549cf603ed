"""Which convolutions in groups run on the tensor cores, and which on the CUDA cores."""

import pytest

from dsl.check.program import check
from dsl.ir import Conv, DType
from dsl.printer import to_text
from engine.strategies.planner.lowering.choice import Choice
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.lowering.pipeline import program
from tests.engine.graphs import Builder


def compute(op, x, w, y, **attrs):
    """The precision in which the convolution of the program in class f16 computes: f32 is on the CUDA cores."""
    g = Builder()
    graph = g.graph(g.op(op, [g.input("x", x), g.parameter("w", w)], y, **attrs))
    checked = check(to_text(program(lower(graph), "f16", Choice())))
    assert checked.ok
    (stage,) = (s for s in checked.program.stages if isinstance(s, Conv))
    return stage.config.compute


@pytest.mark.parametrize(("channels", "cores"), [(1, DType.F32), (8, DType.F32), (12, DType.F32), (32, DType.F16)])
def test_few_channels_a_group_or_such_that_would_be_padded_run_on_the_cuda_cores(channels, cores):
    c = 4 * channels
    assert compute("conv2d", (2, c, 34, 34), (c, channels, 3, 3), (2, c, 32, 32), groups=4) is cores


@pytest.mark.parametrize(("channels", "cores"), [(1, DType.F32), (12, DType.F32), (8, DType.F16), (16, DType.F16)])
def test_transposed_with_a_stride_few_channels_are_enough_for_the_tensor_cores(channels, cores):
    """The CUDA cores would try every position of the window for every result."""
    c = 4 * channels
    shapes = (2, c, 16, 16), (c, channels, 4, 4), (2, c, 32, 32)
    assert compute("conv_transpose2d", *shapes, groups=4, stride=[2, 2], padding=[1, 1]) is cores


def test_transposed_without_a_stride_they_are_as_any_other():
    shapes = (2, 32, 16, 16), (32, 8, 3, 3), (2, 32, 18, 18)
    assert compute("conv_transpose2d", *shapes, groups=4) is DType.F32
