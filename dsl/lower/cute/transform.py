"""A transform stage: interleave, view, permute, pad, crop, layout and cast.

A cast that keeps the layout is one flat launch for every size. The other transforms are element-wise kernels over the
result's axes that read x with changed strides.
"""

from __future__ import annotations

from dataclasses import replace

from dsl.guard import watched
from dsl.ir import Acc, Program, TensorType, Transform
from dsl.ir.views import view_strides
from dsl.lower import Refusal
from dsl.lower.cute import parts
from dsl.lower.cute.generated_kernels import COMPUTED, FLAG, element, own_plan
from dsl.lower.cute.pointwise import add_kernel
from dsl.lower.cute.stage import CUTE, Part, StagePlan, Text, types_of
from dsl.lower.cute.walk import Reading, Walk, add_launch, blocks_of, walk_tensors
from dsl.lower.plan.rescue import stops_early

_FLAT = ("f32", "f16", "bf16")


def plan(program: Program, stage: Transform) -> StagePlan:
    types = types_of(program)
    t, to = types[stage.x.name], stage.type
    if stage.x.transposed:
        raise Refusal(
            "cute-transform", f"{stage.name} transposes {stage.x.name}", f"write .T where {stage.name} is read"
        )
    if t.dtype is not to.dtype and not {t.dtype, to.dtype} <= set(COMPUTED):
        raise Refusal("cute-dtype", f"casts go through f32, and {stage.name} casts {t.dtype.value}", "leave `to` out")
    flat = {t.dtype.value, to.dtype.value} <= set(_FLAT) and t.elements < 2**31
    plain = (stage.view, stage.permute, stage.pad, stage.crop, stage.other) == (None,) * 5
    watches = program.guard and watched(stage, t)
    if plain and flat and t.strides == to.strides and stage.epilogue == Acc() and not watches:
        return _cast(stage, t, to)
    text, walks = Text(), _walks(stage, types)
    stops = bool(watches) and stops_early(t)
    walks = [replace(walk, flag=FLAG, stops=stops) for walk in walks] if watches else walks
    notes = []
    for walk in walks:
        if notes:
            text.gap(2)
        notes.append(add_kernel(text, walk))
    names = [*dict.fromkeys(o.name for o in stage.operands), stage.name]
    kernels = [(f"{walk.name}_kernel", walk_tensors(walk), blocks_of(walk)) for walk in walks]
    add_launch(text, stage.name, [*names, *([FLAG] if watches else [])], kernels)
    text.span(("", "layout"), 1)
    leave = {"parts": [Part(parts.LEAVE, 36)], "imports": frozenset({parts.LLVM})} if stops else {}
    return own_plan(program, stage, text, f"{stage.name}_launch", names, note=notes[0], watches=watches, **leave)


def _cast(stage: Transform, t: TensorType, to: TensorType) -> StagePlan:
    vector = 8
    while t.elements % vector:
        vector //= 2
    out = Text()
    bits = min(t.dtype.bits, to.dtype.bits) * vector
    out.add(
        f"{stage.name.upper()} = CastStage(cutlass.{CUTE[t.dtype]}, cutlass.{CUTE[to.dtype]}, vector={vector})"
        f"  # {min(bits, 128)}-bit accesses",
        ("", "to"),
    )
    version = f'CAST_VERSION = "{parts.CAST_VERSION}"  # part of the cache key, beside quack\'s\n'
    return StagePlan(
        out,
        f"{stage.x.name}, {stage.name}",
        (stage.x.name, stage.name),
        (Part(version + parts.CAST, 20),),
        frozenset({("cuda.bindings.driver", "CUstream"), ("quack.cache", "jit_cache")}),
        modules=frozenset({"cutlass", "cutlass.cute as cute"}),
    )


def _walks(stage: Transform, types: dict[str, TensorType]) -> list[Walk]:
    """One walk over the result; for an interleave two, one for each tensor."""
    x, to = types[stage.x.name], stage.type
    plain = element(stage, Acc(), f"{stage.name}_element")
    if stage.other is not None:
        if (stage.view, stage.permute, stage.pad, stage.crop) != (None,) * 4:
            raise Refusal(
                "cute-transform", f"{stage.name} interleaves and changes the shape in one stage", "write two transforms"
            )
        axis = max(len(x.shape) - 2, 0)
        out = tuple(s * 2 if i == axis else s for i, s in enumerate(to.strides))
        walks = []
        for parity, (operand, name) in enumerate(((stage.x, stage.name), (stage.other, f"{stage.name}_second"))):
            source = types[operand.name]
            reading = Reading(operand.name, source.dtype, source.strides)
            result = Reading(stage.name, to.dtype, out, parity * to.strides[axis])
            walks.append(Walk(name, source.shape, to.memory_order, reading, ((result, plain, ()),)))
        return walks
    shape, strides = x.shape, x.strides
    if stage.view is not None:
        strides = view_strides(shape, strides, stage.view)
        if strides is None:
            raise Refusal(
                "cute-transform", f"{stage.name} views {stage.x.name}, whose rows are not contiguous",
                f"first {stage.x.name}_ = transform({stage.x.name}) {{ layout nchw }}",
            )  # fmt: skip
        shape = stage.view
    if stage.permute is not None:
        shape, strides = tuple(shape[i] for i in stage.permute), tuple(strides[i] for i in stage.permute)
    inside = {i: size for i, (size, padded) in enumerate(zip(shape, to.shape, strict=True)) if size < padded}
    reading, result = Reading(stage.x.name, x.dtype, strides), Reading(stage.name, to.dtype, to.strides)
    return [Walk(stage.name, to.shape, to.memory_order, reading, ((result, plain, ()),), inside=inside)]
