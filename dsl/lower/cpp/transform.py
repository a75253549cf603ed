"""The plan of a transform stage: a vectorised cast of our own, or a cast that transposes through shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import DType, TensorType, Transform
from dsl.lower.cpp.names import identifier, storage


@dataclass(frozen=True)
class TransformPlan:
    """x as `batch` matrices of rows x cols in memory; `transposed` writes cols x rows."""

    name: str
    x: str
    source: str
    target: str
    elements: int
    batch: int
    rows: int
    cols: int
    transposed: bool
    prepack: bool
    kind: str = "transform"


def plan_transform(stage: Transform, types: dict[str, TensorType]) -> TransformPlan:
    kind = types[stage.x.name]
    to: DType = stage.to or kind.dtype
    *lead, rows, cols = (1, 1, *kind.shape)[-max(2, len(kind.shape)) :]
    batch = 1
    for d in lead:
        batch *= d
    return TransformPlan(
        identifier(stage.name),
        identifier(stage.x.name),
        storage(kind.dtype, stage.x.name),
        storage(to, stage.name),
        kind.elements,
        batch,
        rows,
        cols,
        stage.x.transposed,
        stage.prepack,
    )
