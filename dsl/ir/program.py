"""A whole program, and the matrix product that a stage of it poses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dsl.ir.stages import Conv, Gemm, Stage
from dsl.ir.types import NOWHERE, Span, TensorType


@dataclass(frozen=True)
class Param:
    """An input of the program, in call order."""

    name: str
    type: TensorType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Program:
    """A pipeline: parameters, stages in order (one launch each), and the names of the results.

    `graph`: the whole pipeline is launched as one CUDA graph. `guard`: each conversion to f16 is checked for range,
    and the results are computed in f32 where it fails (dsl.guard).
    """

    name: str
    params: tuple[Param, ...]
    stages: tuple[Stage, ...]
    results: tuple[str, ...]
    result_types: tuple[TensorType, ...]
    arch: str | None = None  # None: auto (sm_90a)
    graph: bool = False
    guard: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    arch_span: Span = field(default=NOWHERE, compare=False)

    @cached_property
    def types(self) -> dict[str, TensorType | None]:
        """The types of all tensors by name: parameters, stages, and each `also`. Not to be changed."""
        extra = {a.name: a.type for s in self.stages for a in s.also}
        return {**{x.name: x.type for x in (*self.params, *self.stages)}, **extra}

    @cached_property
    def packed(self) -> dict[str, tuple[str, ...]]:
        """The parameters that each prepacked tensor is computed from. Not to be changed."""
        origins: dict[str, tuple[str, ...]] = {}
        for s in self.stages:
            if getattr(s, "prepack", False):
                origins[s.name] = tuple(dict.fromkeys(p for o in s.operands for p in origins.get(o.name, (o.name,))))
        return origins

    def type_of(self, name: str) -> TensorType | None:
        """The type of a parameter, a stage or an `also` by name; None for an unknown name or an unknown type."""
        return self.types.get(name)


@dataclass(frozen=True)
class GemmShape:
    """The size of a product: L batches of M x N x K."""

    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int


def gemm_shape(program: Program, stage: Gemm) -> GemmShape:
    """L, M, N, K of a checked stage. 2-D operands have l = 1; a 2-D B against a batched A is broadcast over l.

    With `pairs`, N counts the product's columns, twice the result's.
    """
    a, b = program.type_of(stage.a.name).shape, program.type_of(stage.b.name).shape
    if stage.a.transposed:
        a = (*a[:-2], a[-1], a[-2])
    if stage.b.transposed:
        b = (*b[:-2], b[-1], b[-2])
    batch = 1
    for d in a[:-2] if len(a) >= len(b) else b[:-2]:
        batch *= d
    return GemmShape(batch, a[-2], b[-1], a[-1])


def conv_shape(program: Program, stage: Conv) -> GemmShape:
    """The implicit product of a checked convolution; L is the number of groups, and M, N, K are of one group.

    M = b x output pixels, N = channels out, K = channels in x window. For a transposed convolution M = b x input
    pixels, N = channels out x window, K = channels in.
    """
    x, w, y = program.type_of(stage.x.name).shape, program.type_of(stage.w.name).shape, stage.type.shape
    window = 1
    for d in w[2:]:
        window *= d
    pixels = (x if stage.transposed else y)[0]
    for d in (x if stage.transposed else y)[2:]:
        pixels *= d
    if stage.transposed:
        return GemmShape(stage.groups, pixels, w[1] * window, w[0] // stage.groups)
    return GemmShape(stage.groups, pixels, w[0] // stage.groups, w[1] * window)
