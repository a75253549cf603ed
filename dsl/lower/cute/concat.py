"""concat: an element-wise kernel for each operand, which writes its part of the result."""

from __future__ import annotations

from dataclasses import replace

from dsl.axes import single_axes
from dsl.ir import Concat, Program, inlined, shifted
from dsl.lower.cute.generated_kernels import FLAG, own_plan, refuse_types, watched_results
from dsl.lower.cute.pointwise import add_elements, add_kernel
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import Reading, Walk, add_launch, blocks_of, unique, walk_tensors


def plan(program: Program, stage: Concat) -> StagePlan:
    types, text = types_of(program), Text()
    rank = len(stage.type.shape)
    at = single_axes(rank)[stage.over]
    results = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
    stored = watched_results(program, stage)
    flags = [FLAG] if stored else []
    names, kernels, imports, first = [], [], set(), 0
    for number, o in enumerate(stage.parts):
        x, own = types[o.name], f"{stage.name}_concat{number}"
        text.gap(2 if number else 0)
        parts = [
            (f"{own}_element{i or ''}", shifted(inlined(stage, expr), stage.over, first),
             Reading(result, t.dtype, t.strides, first * t.strides[at]))
            for i, (result, expr, t) in enumerate(results)
        ]  # fmt: skip
        outputs, readings = add_elements(text, stage, types, rank, parts)
        imports |= frozenset().union(*(f.imports for _, f, _ in outputs))
        reads = [o.name, *(r.tensor for r in readings.values()), *(name for name, _, _ in results)]
        refuse_types(stage, types, reads)
        extents = tuple(x.shape[at] if i == at else n for i, n in enumerate(stage.type.shape))
        repeated = tuple(0 if n != m else s for n, m, s in zip(x.shape, extents, x.strides, strict=True))
        walk = Walk(own, extents, stage.type.memory_order, Reading(o.name, x.dtype, repeated), tuple(outputs), readings)
        walk = replace(walk, flag=FLAG, stored=stored) if stored else walk
        note = add_kernel(text, walk)
        kernels.append((f"{own}_kernel", walk_tensors(walk), blocks_of(walk)))
        names, first = unique([*names, *reads]), first + x.shape[at]
    # Results come last, as for every stage.
    last = [name for name, _, _ in results]
    names = [*(n for n in names if n not in last), *last]
    add_launch(text, stage.name, [*names, *flags], kernels)
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, imports=frozenset(imports), note=note,
        watches=bool(stored),
    )  # fmt: skip


__all__ = ["plan"]
