"""A transform stage: a cast of a whole tensor as it lies, one launch over flat memory; the rest is pointwise work."""

from __future__ import annotations

from dsl.ir import Program, Transform
from dsl.lower import Refusal
from dsl.lower.cute import parts
from dsl.lower.cute.stage import CUTE, Part, StagePlan, Text, types_of


def plan(program: Program, stage: Transform) -> StagePlan | None:
    t, to = types_of(program)[stage.x.name], stage.type
    if stage.x.transposed:
        raise Refusal("cute-transform", f"{stage.name} transposes {stage.x.name}", f"write .T where {stage.name} is read")
    if stage.type.elements >= 2**31:
        raise Refusal("cute-size", f"{stage.name} has {to.elements:,} elements; the cast counts in 32 bits", None)
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
