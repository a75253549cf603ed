"""A transposed convolution is cut into phases, each a plain convolution: put together they are PyTorch's."""

import itertools

import pytest
import torch

from dsl.ir import NCHW, NHWC
from dsl.lower.cpp import lower
from dsl.lower.cpp.conv.conv_plan import plan_conv

from . import convolutions


def by_phases(plan, x, w):
    """The whole output from the plan's phases alone: pads (or crops) x, turns the taps, strides the result."""
    s, (first, last) = plan.spatial, (x.shape[0], w.shape[1] * plan.groups)
    image = (*convolutions.image(plan)[:-1], plan.width)
    out = torch.full((first, last, *image), float("nan"), dtype=x.dtype)
    conv = (torch.conv1d, torch.conv2d, torch.conv3d)[s - 1]
    for phase in plan.phases:
        filters = convolutions.filters_of(plan, phase, w)
        edges = [e for pair in zip(phase.lower, phase.upper, strict=True) for e in pair]
        padded = torch.nn.functional.pad(x, [e for i in range(s - 1, -1, -1) for e in edges[2 * i : 2 * i + 2]])
        part = conv(padded, filters, None, plan.stride, 0, plan.dilation, plan.groups)
        assert tuple(part.shape[2:]) == phase.out
        if plan.beside:  # columns 2 c and 2 c + 1 are neighbours in a row
            part = torch.stack([part[:, f :: plan.across] for f in range(plan.across)], -1).flatten(-2)
            part = part[..., : out.shape[-1]]
        step = (*plan.step[:-1], 1) if plan.beside else plan.step
        at = (slice(None), slice(None), *(slice(o, None, t) for o, t in zip(phase.origin, step, strict=True)))
        assert torch.isnan(out[at]).all()  # no output twice
        out[at] = part
    return out


@pytest.mark.parametrize("layout", [NHWC, NCHW])
@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation", "output_padding", "groups"),
    [
        ((3, 3), 1, 0, 1, 0, 1),
        ((3, 3), 2, 1, 1, 1, 1),
        ((4, 4), 2, 1, 1, 0, 2),
        ((1, 1), 2, 0, 1, 1, 1),
        ((3, 5), 3, 2, 2, 1, 1),
        ((2, 3), 2, 1, 2, 0, 1),
        ((5,), 4, 3, 3, 2, 1),
        ((3, 3, 3), 2, 1, 1, 1, 1),
        ((3, 3), 2, 4, 3, 1, 1),
    ],
)
def test_phases_make_the_whole(window, stride, padding, dilation, output_padding, groups, layout):
    s = len(window)
    program = convolutions.transposed(
        window, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding, groups=groups,
        layout=layout,
    )  # fmt: skip
    stage = program.stages[0]
    plan = plan_conv(program, stage, {p.name: p.type for p in program.params})
    assert bool(plan.beside) == (layout == NCHW and stride == 2)
    x = torch.randn(program.params[0].type.shape, dtype=torch.float64)
    w = torch.randn(program.params[1].type.shape, dtype=torch.float64)
    exact = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[s - 1](
        x, w, None, stage.stride, stage.padding, stage.output_padding, groups, stage.dilation
    )
    result = by_phases(plan, x, w)
    torch.testing.assert_close(result, exact, atol=1e-9, rtol=1e-9)


def test_packed_filters_lie_one_phase_after_the_other():
    program = convolutions.transposed((3, 3), stride=2, padding=1, output_padding=1)
    plan = plan_conv(program, program.stages[0], {p.name: p.type for p in program.params})
    sizes = [plan.filters * plan.channels * a * b for a, b in (p.taps for p in plan.phases)]
    assert [p.packed for p in plan.phases] == [0, *itertools.accumulate(sizes[:-1])]
    assert plan.packed == sum(sizes)


def test_both_phases_along_w_are_columns_of_one_tile():
    program = convolutions.transposed((3, 3), stride=2, padding=1, output_padding=1, layout=NCHW)
    plan = plan_conv(program, program.stages[0], {p.name: p.type for p in program.params})
    assert (plan.columns, len(plan.phases)) == (2 * plan.filters, 2)
    # Even pixels meet the middle tap at the input pixel below them; odd ones the last tap there and the first beyond.
    assert plan.beside == ((1, -1), (2, 0))
    sizes = [2 * plan.filters * plan.channels * a * b for a, b in (p.taps for p in plan.phases)]
    assert plan.packed == sum(sizes) and plan.phases[1].packed == sizes[0]


@pytest.mark.parametrize(("output_padding", "stored"), [(1, "store_beside<true>"), (0, "w + 1 < 17")])
def test_neighbours_are_stored_together_where_rows_have_whole_pairs(output_padding, stored):
    program = convolutions.transposed((3, 3), stride=2, padding=1, output_padding=output_padding, layout=NCHW)
    text = lower(program).text
    assert stored in text
    assert ("inside = inside && w < 17" in text) == (output_padding == 0)
