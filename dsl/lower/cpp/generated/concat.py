"""The plan of concat: an element-wise part for each operand, which writes its part of the result."""

from __future__ import annotations

from dataclasses import replace

from dsl.axes import axes_of, single_axes
from dsl.ir import Concat, Program, TensorType, inlined, shifted
from dsl.lower import Refusal
from dsl.lower.cpp.generated.elementwise import Result, elementwise
from dsl.lower.cpp.generated.parts import Builder, OwnPlan, access
from dsl.lower.cpp.generated.space import Space
from dsl.lower.cpp.generated.values import Reader, value


def plan_concat(program: Program, stage: Concat, types: dict[str, TensorType]) -> OwnPlan:
    builder, rank = Builder(stage.name, "concat", types), len(stage.type.shape)
    at, axes, first = single_axes(rank)[stage.over], axes_of(stage, rank), 0
    values = []
    for number, o in enumerate(stage.parts):
        kind = types[o.name]
        extents = tuple(kind.shape[at] if i == at else n for i, n in enumerate(stage.type.shape))
        reader, results, outputs = Reader(axes, types, rank), [], []
        builder.tensor("x", o.name)
        for pointer, name, expr, t, clause in (
            ("y", stage.name, stage.epilogue, stage.type, "epilogue"),
            *((f"y_{a.name}", a.name, a.expr, a.type, "also") for a in stage.also),
        ):
            if (t.shape, t.layout) != (stage.type.shape, stage.type.layout):
                raise Refusal("cpp-also", f"{name} is {t}, and {stage.name} {stage.type}", "make it its own stage")
            begin = first * t.strides[at]
            builder.tensor(pointer, name, begin)
            own = value(
                f"value_{pointer}_{number}", shifted(inlined(stage, expr), stage.over, first), (), reader, clause
            )
            results.append(Result(pointer, own, kind.dtype is t.dtype and own.plain))
            written = replace(access(pointer, t), first=begin)
            outputs.append(
                replace(written, strides=tuple(s if n > 1 else 0 for s, n in zip(t.strides, extents, strict=True)))
            )
        builder.reads(reader)
        space = Space(extents, ("",) * rank, (access("x", kind), *outputs, *reader.accesses()))
        elementwise(builder, space, results)
        values += [r.value for r in results]
        first += kind.shape[at]
    return builder.plan(values)


__all__ = ["plan_concat"]
