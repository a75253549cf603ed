"""Plans of map and transform: one element-wise part each."""

from __future__ import annotations

from dataclasses import replace

from dsl.axes import axes_of
from dsl.ir import Acc, Map, Operand, Program, Stage, TensorType, Transform
from dsl.ir.views import view_strides
from dsl.lower import Refusal
from dsl.lower.cpp.generated.elementwise import Result, elementwise
from dsl.lower.cpp.generated.parts import Builder, OwnPlan, access
from dsl.lower.cpp.generated.space import Access, Space
from dsl.lower.cpp.generated.values import Reader, Value, value


def plan_map(program: Program, stage: Map, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a map: y = epilogue at each element of x."""
    builder = Builder(stage.name, "map", types)
    _, x = operand(stage.x, "x", types)
    shape, steps = stage.type.shape, types[stage.x.name].strides
    x = replace(x, first=sum(s * step for s, step in zip(stage.start or (), steps, strict=False)))
    reader = Reader(axes_of(stage, len(shape)), types, len(shape))
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name, x.first)
    builder.reads(reader)
    space = Space(shape, ("",) * len(shape), (x, *outputs, *reader.accesses()))
    plain = types[stage.x.name].dtype is stage.type.dtype
    results = [Result(r.pointer, r.value, plain and r.value.plain) for r in results]
    elementwise(builder, space, results)
    return builder.plan([r.value for r in results])


def operand(o: Operand, pointer: str, types: dict[str, TensorType]) -> tuple[tuple[int, ...], Access]:
    """An operand's shape and access, with its last two axes swapped for `.T`."""
    kind = types[o.name]
    shape, whole = kind.shape, access(pointer, kind)
    if not o.transposed:
        return shape, whole
    s = whole.strides
    return (*shape[:-2], shape[-1], shape[-2]), Access(pointer, kind.dtype, (*s[:-2], s[-1], s[-2]))


def results_of(builder: Builder, stage: Stage, reader: Reader) -> tuple[list[Result], list[Access]]:
    """The functions and accesses of the result and the second results. All have the stage's shape and layout."""
    results, outputs = [], []
    for pointer, name, expr, kind, clause in (
        ("y", stage.name, stage.epilogue, stage.type, "epilogue"),
        *((f"y_{a.name}", a.name, a.expr, a.type, "also") for a in stage.also),
    ):
        if (kind.shape, kind.layout) != (stage.type.shape, stage.type.layout):
            raise Refusal("cpp-also", f"{name} is {kind}, and {stage.name} {stage.type}", "make it a stage of its own")
        builder.tensor(pointer, name)
        results.append(Result(pointer, value(f"value_{pointer}", expr, stage.lets, reader, clause)))
        outputs.append(access(pointer, kind))
    return results, outputs


def plan_transform(program: Program, stage: Transform, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a transform: one element-wise part that reads the source with changed strides."""
    builder = Builder(stage.name, "transform", types)
    shape, x = operand(stage.x, "x", types)
    strides, y = list(x.strides), stage.type
    if not isinstance(stage.epilogue, Acc) or stage.also:
        raise Refusal("cpp-transform", f"{stage.name} is a transform with an epilogue", "write a map after it")
    plain = Value("value_y", (), (), "acc", (), True, "to")
    builder.tensor("y", stage.name)
    builder.tensor("x", stage.x.name)
    result = [Result("y", plain, types[stage.x.name].dtype is y.dtype)]
    if stage.other is not None:
        space = _interleaved(builder, stage, types, shape, x)
        elementwise(builder, space, result, select=max(len(shape) - 2, 0) + 1)
        return builder.plan([plain])
    if stage.view is not None:
        shape, strides = stage.view, _viewed(stage, shape, strides)
    if stage.permute is not None:
        shape, strides = tuple(shape[i] for i in stage.permute), [strides[i] for i in stage.permute]
    limits = {}
    for after in (stage.pad, stage.crop):
        for d, n in enumerate(after or ()):
            if n > shape[d]:
                limits[d] = shape[d]
            elif d in limits and n <= limits[d]:
                del limits[d]
        shape = after or shape
    space = Space(shape, ("",) * len(shape), (Access("x", x.dtype, tuple(strides)), access("y", y)))
    elementwise(builder, space, result, limits=limits)
    return builder.plan([plain])


def _interleaved(builder: Builder, stage: Transform, types: dict, shape: tuple[int, ...], x: Access) -> Space:
    """The space of an interleave: the row axis is split in two, and the second one, of length 2, selects the tensor."""
    other_shape, x_2 = operand(stage.other, "x_2", types)
    if any(part is not None for part in (stage.view, stage.permute, stage.pad, stage.crop)):
        raise Refusal("cpp-interleave", f"{stage.name} interleaves and changes the shape", "write two transforms")
    if (other_shape, x_2.strides, x_2.dtype) != (shape, x.strides, x.dtype):
        raise Refusal(
            "cpp-interleave", f"{stage.x.name} and {stage.other.name} lie differently in memory", "transform one first"
        )
    builder.tensor("x_2", stage.other.name)
    row, y = max(len(shape) - 2, 0), access("y", stage.type)

    def split(a: Access, first: int, second: int) -> Access:
        return Access(a.pointer, a.dtype, (*a.strides[:row], first, second, *a.strides[row + 1 :]))

    s = y.strides[row]
    return Space(
        (*shape[:row], shape[row], 2, *shape[row + 1 :]),
        ("",) * (len(shape) + 1),
        (split(x, x.strides[row], 0), split(x_2, x.strides[row], 0), split(y, 2 * s, s)),
    )


def _viewed(stage: Transform, shape: tuple[int, ...], strides: list[int]) -> list[int]:
    """The strides of the same elements, in row-major order, in the new shape. Raises Refusal if there are none."""
    viewed = view_strides(shape, strides, stage.view)
    if viewed is None:
        raise Refusal(
            "cpp-view",
            f"{stage.x.name} has no view {'x'.join(map(str, stage.view))} in the order in which it lies",
            f"first write {stage.x.name}_r = transform({stage.x.name}) {{ layout nchw }}",
        )
    return [0 if n == 1 else s for n, s in zip(stage.view, viewed, strict=True)]
