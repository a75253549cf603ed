"""Reductions along the contiguous axis (rows) or across it (columns).

rows      a lane, a warp or a block reads the elements of one result in vectors, with several in flight, and merges by
          shuffles;
columns   each thread has a vector of neighbouring results, and the block's rows of threads share the elements of each.

With few results several blocks share one and store partial states, and a second kernel merges these.
"""

from __future__ import annotations

from dsl.axes import axes_of
from dsl.ir import Program, Reduce, TensorType
from dsl.lower.cute.generated_kernels import element, own_plan, refuse_types
from dsl.lower.cute.reduce.reduce_kernels import add_reduction
from dsl.lower.cute.reduce.reduce_writer import Reduction, Result
from dsl.lower.cute.space import (
    load_strides,
)
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import Reading, add_launch, read_all, unique

_FOLD = {"sum": "Sum", "mean": "Sum", "max": "Max", "min": "Min", "logsumexp": "LogSumExp", "argmax": "ArgMax"}


def plan(program: Program, stage: Reduce) -> StagePlan:
    types = types_of(program)
    x, rank = types[stage.x.name], len(types[stage.x.name].shape)
    axes = axes_of(stage, rank)
    reduced = frozenset(p for name in stage.over for p in axes[name])
    text, readings = Text(), {}
    of = element(stage, stage.of, f"{stage.name}_of")
    keys = read_all(of, types, axes, rank, readings)
    ends = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
    functions = [element(stage, expr, f"{name}_element") for name, expr, _ in ends]
    left = [read_left(f, types, stage, axes, reduced, rank, readings) for f in functions]
    names = unique([stage.x.name, *(r.tensor for r in readings.values()), *(name for name, _, _ in ends)])
    refuse_types(stage, types, names)
    count = 1
    for axis in reduced:
        count *= x.shape[axis]
    value = {"mean": f"total[0] * {1.0 / count!r}", "logsumexp": "LogSumExp.shift(total[0]) + cute.math.log(total[1])",
             "argmax": "total[1]"}.get(stage.op, "total[0]")  # fmt: skip
    results = tuple(
        Result(value, Reading(name, t.dtype, result_strides(t, rank, reduced, stage.keepdim)), function, keys)
        for (name, _, t), function, keys in zip(ends, functions, left, strict=True)
    )
    reading = Reading(stage.x.name, x.dtype, x.strides)
    job = Reduction(stage.name, x.shape, x.memory_order, reduced, reading, of, keys, _FOLD[stage.op], results, readings)
    for one, clause in ((of, "of"), *((f, "epilogue") for f in functions)):
        if not one.plain:
            text.add(one.text, ("", clause))
            text.gap(2)
    kernels = add_reduction(text, job)
    add_launch(text, stage.name, [*names, *(f"{stage.name}_{s.suffix}" for s in kernels.scratch)], kernels.launches)
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, kernels.scratch,
        of.imports.union({("cutlass", "select_")}, *(f.imports for f in functions)), [kernels.part], kernels.note,
    )  # fmt: skip


def result_strides(t: TensorType, rank: int, reduced: frozenset[int], keepdim: bool) -> tuple[int, ...]:
    """The result's strides along x's axes, 0 for the reduced ones."""
    if keepdim:
        return tuple(0 if i in reduced else s for i, s in enumerate(t.strides))
    own = iter(t.strides)
    return tuple(0 if i in reduced else next(own) for i in range(rank))


def read_left(function, types, stage, axes, reduced, rank, readings) -> tuple[str, ...]:
    """Add the tensors that the epilogue reads to `readings`, with strides along x's axes. Returns their keys."""
    keys = []
    for load in function.loads:
        t = types[load.name]
        strides = load_strides(t, load, axes, rank)
        key = "left_" + load.name + "".join(f"_{a}" for a in load.axes)
        readings[key] = Reading(load.name, t.dtype, tuple(0 if i in reduced else s for i, s in enumerate(strides)))
        keys.append(key)
    return tuple(keys)
