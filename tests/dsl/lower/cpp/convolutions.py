"""Convolution programs as values: the lowering is tested here, not the parser."""

from __future__ import annotations

import dataclasses

import torch

from dsl.ir import NHWC, Acc, Also, Config, Conv, DType, Load, Operand, Param, Program, Scheduler, TensorType

PRECISION = {"tf32": (DType.F32, DType.TF32), "f16": (DType.F16, DType.F16), "bf16": (DType.BF16, DType.BF16)}


def conv(
    window: tuple[int, ...],
    *,
    image: tuple[int, ...] | None = None,
    batch: int = 2,
    channels: int = 32,
    filters: int = 64,
    compute: str = "tf32",
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    is_transposed: bool = False,
    layout: str = NHWC,
    store: DType | None = None,
    epilogue=None,
    reads: tuple[Param, ...] = (),
    also: tuple[str, ...] = (),
    tile: tuple[int, int, int] | None = None,
    cluster: tuple[int, int, int] = (1, 1, 1),
    schedule: str = "cooperative",
    scheduler: Scheduler | None = None,
    stages: int = 3,
) -> Program:
    """y = conv(x, w), every attribute the same along all axes, configured whole."""
    s = len(window)
    image = image or (11, 9, 10)[:s]
    operand, precision = PRECISION[compute]
    if is_transposed:
        reach = [dilation * (r - 1) + output_padding + 1 - 2 * padding for r in window]
        size = [(i - 1) * stride + r for i, r in zip(image, reach, strict=True)]
        shape = (channels, filters // groups, *window)
    else:
        size = [(i + 2 * padding - dilation * (r - 1) - 1) // stride + 1 for i, r in zip(image, window, strict=True)]
        shape = (filters, channels // groups, *window)
    kind = TensorType(store or operand, (batch, filters, *size), layout)
    tile = tile or (128, 64, 1024 // operand.bits)
    config = Config(precision, tile, cluster, schedule, scheduler or Scheduler("persistent"), stages, 1)
    stage = Conv(
        name="y", x=Operand("x"), w=Operand("w"), spatial=s, transposed=is_transposed, stride=(stride,) * s,
        padding=(padding,) * s, dilation=(dilation,) * s, output_padding=(output_padding,) * s if is_transposed else (),
        groups=groups, config=config, epilogue=epilogue or Acc(), store=kind.dtype, store_layout=layout, type=kind,
        also=tuple(Also(name, Acc(), kind) for name in also),
    )  # fmt: skip
    params = (
        Param("x", TensorType(operand, (batch, channels, *image), NHWC)),
        Param("w", TensorType(operand, shape, NHWC)),
    )
    return Program("p", (*params, *reads), (stage,), ("y", *also), (kind,) * (1 + len(also)), "sm_90a")


def transposed(window: tuple[int, ...], **attributes) -> Program:
    return conv(window, is_transposed=True, **attributes)


def read(program: Program, name: str, axes: str) -> tuple[Param, Load]:
    """A f32 tensor over some of the result's axes, and how the epilogue reads it."""
    kind = program.stages[0].type
    sizes = dict(zip(("b", "c", *"dhw"[5 - len(kind.shape) :]), kind.shape, strict=True))
    return Param(name, TensorType(DType.F32, tuple(sizes[a] for a in axes))), Load(name, tuple(axes))


def image(plan) -> tuple[int, ...]:
    """The spatial size of the whole result."""
    return tuple(max(p.origin[i] + (p.out[i] - 1) * plan.step[i] + 1 for p in plan.phases) for i in range(plan.spatial))


def filters_of(plan, phase, w: torch.Tensor) -> torch.Tensor:
    """What a phase of a transposed convolution multiplies: [columns, channels of a group, window] of w as it is given,
    [channels, filters of a group, window]."""
    taps = [
        [f + (n - 1 - j) * step for j in range(n)]
        for f, n, step in zip(phase.first, phase.taps, plan.tap_step, strict=True)
    ]
    if plan.beside:
        taps[-1] = range(w.shape[-1])
    filters = w[(slice(None), slice(None), *torch.meshgrid(*map(torch.tensor, taps), indexing="ij"))]
    filters = torch.zeros_like(filters) if phase.empty else filters
    filters = torch.cat([part.transpose(0, 1) for part in filters.chunk(plan.groups)])
    if plan.beside:
        padded = torch.nn.functional.pad(filters, (0, 1))  # what -1 takes is zero
        filters = torch.stack([padded[..., list(seen)] for seen in plan.beside], 1).flatten(0, 1)
    return filters


def changed(program: Program, **changes) -> Program:
    return dataclasses.replace(program, stages=(dataclasses.replace(program.stages[0], **changes),))
