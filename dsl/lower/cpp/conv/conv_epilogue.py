"""The epilogue of a convolution: how each tensor is read or written, from the place of an element in the tile."""

from __future__ import annotations

import math

from dsl.axes import SPATIAL, image_axes
from dsl.ir import Conv, Load, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.conv.conv_phases import Phase
from dsl.lower.cpp.epilogue import Leaf, Tree, Write, build, shared
from dsl.lower.cpp.names import aligned, identifier, storage


class Place:
    """The offsets of elements in the epilogue's tensors, as C++ expressions over the indices of the kernel's tile."""

    def __init__(
        self, y: TensorType, way: str, groups: int, phases: tuple[Phase, ...], step: tuple[int, ...], beside: bool
    ):
        self.rank = len(y.shape)
        self.y, self.way, self.groups, self.step, self.beside = y, way, groups, step, beside
        self.phased = len(phases) > 1 or beside
        self.origin = len(phases) > 1
        self.out = phases[0].out if len({p.out for p in phases}) == 1 else ()  # () where it differs by phase
        self.whole = True  # the spatial axes are read together, as one pixel index
        self.names = SPATIAL[self.rank - 2]

    def offset(self, kind: TensorType, axes: tuple[str, ...]) -> str:
        strides = dict(zip(axes, kind.strides, strict=True))
        terms = []
        if not self.phased and set(self.names) <= set(axes):
            strides = {a: s for a, s in strides.items() if a not in self.names} | {"pixel": strides["w"]}
        elif set(self.names) & set(axes):
            self.whole = False
        for axis, stride in strides.items():
            terms.append(f"int64_t({axis})" if stride == 1 else f"int64_t({axis}) * {stride}")
        return " + ".join(terms) or "0"

    def declarations(self) -> tuple[str, ...]:
        """C++ declarations of b, c, pixel and, if a tensor is read at single axes, d, h and w."""
        columns = self.y.shape[1] // self.groups
        lines = []
        pixels = math.prod(self.out) if self.out else "on.pixels"
        if self.way == "image":
            lines.append(
                f"int const b = l / {self.groups}, pixel = m;" if self.groups > 1 else "int const b = l, pixel = m;"
            )
            group = f"l % {self.groups}"
        else:
            lines.append(f"int const b = m / {pixels}, pixel = m - b * {pixels};")
            group = "l"
        filter_ = "n / 2" if self.beside else "n"
        lines.append(
            f"int const c = {filter_} + {group} * {columns};" if self.groups > 1 else f"int const c = {filter_};"
        )
        if not self.whole or self.phased:
            rest = "pixel"
            for i, axis in reversed(list(enumerate(self.names))):
                extent = self.out[i] if self.out else f"on.out[{i}]"
                at = f"{rest} % {extent}" if i else rest
                if self.beside and axis == "w":
                    at = f"({at}) * 2 + n % 2"
                elif self.phased:
                    origin = f" + on.origin[{i}]" if self.origin else ""
                    at = f"({at}) * {self.step[i]}{origin}"
                lines.append(f"int const {axis} = {at};")
                if i:
                    lines.append(f"int const after_{axis} = {rest} / {extent};")
                    rest = f"after_{axis}"
        if self.beside and self.y.shape[-1] % 2:
            lines.append(f"inside = inside && w < {self.y.shape[-1]};  // a row ends with a phase of its own")
        return tuple(lines)


def plan_epilogue(
    stage: Conv,
    types: dict[str, TensorType],
    y: TensorType,
    way: str,
    groups: int,
    phases: tuple[Phase, ...],
    step: tuple[int, ...],
    beside: bool,
) -> tuple[Tree, tuple[str, ...], tuple[str, ...]]:
    place = Place(y, way, groups, phases, step, beside)
    every = tuple(image_axes(len(y.shape)))
    filters, pixels = y.shape[1], math.prod(y.shape[2:])
    columns = filters // groups

    def fetch(load: Load, have_source: bool) -> Leaf:
        name, kind, axes = identifier(load.name), types[load.name], load.axes
        storage(kind.dtype, name)
        if kind.elements == 1:
            return Leaf("scalar", name, kind.dtype)
        if axes == ("c",) and not beside and (way != "image" or groups == 1):
            return Leaf("row", name, kind.dtype, columns if groups > 1 else 0)
        if axes == ("b", "c") and way == "image" and groups == 1:
            return Leaf("row", name, kind.dtype, filters)
        if axes == ("b",) and way == "image" and groups == 1:
            return Leaf("scalar", name, kind.dtype, 1, varies=True)
        if axes == every and way != "direct" and kind.layout == y.layout:
            rows = pixels if way == "image" else columns
            if aligned(rows, kind.dtype):
                slab = columns * (pixels if way == "image" else 1)
                return Leaf("aux" if have_source else "source", name, kind.dtype, slab)
        return Leaf("direct", name, kind.dtype, offset=place.offset(kind, axes))

    main, also = shared(stage)
    writes = []
    if way == "direct":
        writes.append(Write(identifier(stage.name), y.dtype, place.offset(y, every), main))
    for extra, expr in zip(stage.also, also, strict=True):
        if extra.type is None or extra.type.shape != y.shape:
            raise Refusal(
                "cpp-conv-reduction",
                f"{extra.name} reduces {stage.name} while it is computed; the cpp back end does that for a gemm",
                f"write {extra.name} = reduce({stage.name}) as a stage of its own",
            )
        writes.append(Write(identifier(extra.name), extra.type.dtype, place.offset(extra.type, every), expr))
    tree = build(main, fetch, tuple(writes))
    if tree.node:
        tree = Tree(
            tree.leaves, tree.statements, tree.value, tree.functions, tree.outputs, place.declarations(), tree.indexed
        )
    if not tree.node or len(phases) == 1:
        return tree, (), ()
    s = len(y.shape) - 2
    return (
        tree,
        (f"int pixels; cute::array<int, {s}> out, origin;",),
        ("phase.pixels", "phase.out", "phase.origin"),
    )
