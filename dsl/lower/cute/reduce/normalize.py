"""Norms: statistics of a group of elements, and each element normalised with them.

in registers  a group that fits in the registers of a block is read once, and both statistics and results come from
there. streamed      for a larger group, or one that is not contiguous, a reduction stores two statistics for each
group, and an
              element-wise kernel applies them.
Variance is the mean squared distance from the mean, never a difference of sums.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl.ir import DType, Normalize, Program
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import Element, own_plan
from dsl.lower.cute.pointwise import add_kernel
from dsl.lower.cute.reduce.norm import Norm
from dsl.lower.cute.reduce.norm_in_registers import BLOCK, HELD, GroupInRegisters
from dsl.lower.cute.reduce.reduce_kernels import add_reduction, plain_element
from dsl.lower.cute.reduce.reduce_writer import Reduction, Result
from dsl.lower.cute.stage import Scratch, StagePlan, Text
from dsl.lower.cute.walk import Reading, Walk, add_launch, blocks_of, unique, walk_tensors


def plan(program: Program, stage: Normalize) -> StagePlan:
    norm = Norm(program, stage)
    text = Text()
    norm.functions(text)
    if stage.op == "batchnorm":
        launch, scratch, part, note = _applied(text, norm, (), ""), (), None, "no statistics: running ones"
        launches = [launch]
    else:
        kernel = GroupInRegisters.of(text, norm)
        if kernel is not None:
            launches, scratch, part, note = kernel.add()
        elif stage.op == "absmax":
            raise Refusal(
                "cute-norm", f"absmax holds a row in registers: at most {HELD * BLOCK:,} elements that lie side by "
                f"side; a row of {stage.name} has {norm.size:,}", "reduce, then map",
            )  # fmt: skip
        else:
            launches, scratch, part, note = _streamed(text, norm)
    arguments = [*norm.tensors, *(f"{stage.name}_{s.suffix}" for s in scratch), *norm.flag]
    add_launch(text, stage.name, arguments, launches)
    shared = [part] if part else []
    return own_plan(
        program, stage, text, f"{stage.name}_launch", norm.tensors, scratch, norm.imports(), shared, note,
        watches=bool(norm.watched),
    )  # fmt: skip


def _applied(text: Text, norm: Norm, stats: tuple[str, ...], by: str) -> tuple[str, list[str], str]:
    """Add the element-wise kernel that computes the results from x and the statistics. Returns its launch."""
    outputs, all_keys = [], []
    for out in norm.outs:
        body, keys = norm.result_function(out, by, stats)
        text.add(body)
        text.gap(2)
        function = Element(f"{out.name}_result", "", (), (), frozenset(), False)
        outputs.append((out.reading, function, (*stats, *keys)))
        all_keys += keys
    walk = Walk(
        norm.stage.name, norm.extents, norm.out_order, norm.x, tuple(outputs),
        {k: norm.readings[k] for k in unique([*stats, *all_keys])}, flag="".join(norm.flag), stored=norm.watched,
    )  # fmt: skip
    add_kernel(text, walk)
    return (f"{norm.stage.name}_kernel", walk_tensors(walk), blocks_of(walk))


def _streamed(text: Text, norm: Norm):
    """Add a reduction that stores two statistics for each group, and an element-wise kernel that applies them."""
    name = norm.stage.name
    fold, values, by = norm.stats()
    outputs = prod(e for a, e in enumerate(norm.extents) if a not in norm.reduced)
    place, step = [0] * len(norm.extents), 1
    for axis in reversed(norm.order):
        if axis not in norm.reduced:
            place[axis], step = step, step * norm.extents[axis]
    of, keys = norm.of, norm.of_keys
    if fold == "Squares":
        of = _squared(text, norm)
        fold = "Sum"
    stats = Scratch("stats", DType.F32, (2, outputs))
    results = []
    for i, value in enumerate(values):
        reading = Reading(f"{name}_stats", DType.F32, tuple(place), i * outputs)
        norm.readings[f"stat{i}"] = reading
        if value != "Float32(0.0)":
            results.append(Result(value, reading, plain_element(), ()))
    job = Reduction(
        f"{name}_first", norm.extents, norm.order, norm.reduced, norm.x, of, keys, fold, tuple(results),
        {k: norm.readings[k] for k in keys},
    )  # fmt: skip
    first = add_reduction(text, job)
    text.gap(2)
    second = _applied(text, norm, ("stat0", "stat1"), by)
    scratch = (stats, *(replace(s, suffix=f"first_{s.suffix}") for s in first.scratch))
    return [*first.launches, second], scratch, first.part, "statistics first, then every element by them"


def _squared(text: Text, norm: Norm) -> Element:
    """The square of `of`, as a function."""
    name, keys = f"{norm.stage.name}_square", norm.of_keys
    text.add(
        f"def {name}({', '.join(['acc', *keys])}):\n    value = {norm.of.call('acc', *keys)}\n    return value * value"
    )
    text.gap(2)
    return Element(name, "", (), keys, norm.of.imports, False)
