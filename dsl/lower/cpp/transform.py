"""The plan of a transform stage: a vectorised cast of our own, 16 bytes of the narrower type a thread and step."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import Program, TensorType, Transform
from dsl.lower import Refusal
from dsl.lower.cpp.names import identifier, storage


@dataclass(frozen=True)
class TransformPlan:
    """Element types as C++ spells them; `prepack`: the result may be kept while its source is unchanged."""

    name: str
    x: str
    source: str
    target: str
    elements: int
    prepack: bool
    kind: str = "transform"
    template: str = "transform.cu.j2"
    headers: tuple[str, ...] = ("cutlass/cutlass.h", "cutlass/numeric_types.h")
    shared: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    launch: tuple[int, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        return (self.x, self.name)


def plan_transform(program: Program, stage: Transform, types: dict[str, TensorType]) -> TransformPlan:
    kind = types[stage.x.name]
    if stage.x.transposed:
        raise Refusal(
            "cpp-transform",
            f"{stage.name} transposes {stage.x.name}; a transform changes the element type alone",
            f"write .T where {stage.name} is read",
        )
    source, target = storage(kind.dtype, stage.x.name), storage(stage.to or kind.dtype, stage.name)
    return TransformPlan(identifier(stage.name), identifier(stage.x.name), source, target, kind.elements, stage.prepack)
