"""The op graph of a traced module: what `engine.trace` produces and everything in `sol` reads.

Pure data with a JSON form; no torch. Ops keep ATen's names without the overload (`linear`, `mul`, `leaky_relu`),
so that whoever knows PyTorch reads a graph without a key. Costs are computed in `sol.bounds` from op and shapes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1, "c64": 8, "c128": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """`kind`: input | parameter | buffer | constant | intermediate. `path`: its name in the module's state."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    path: str = ""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Op:
    """One operation. `inputs` names tensors; `attrs` holds every other argument by its ATen name.

    `line` is the line of the pasted module that made it, where known; `module` the module of torch.nn that it is part
    of ("LSTM"), or "".
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    line: int | None = None
    module: str = ""


@dataclass(frozen=True)
class OpGraph:
    """Ops in execution order over named tensors; `inputs` and `outputs` in call order."""

    tensors: dict[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"tensors": [asdict(t) for t in self.tensors.values()]})

    @staticmethod
    def from_json(text: str) -> OpGraph:
        """Raises ValueError when the text is not a graph: an op that reads an unknown tensor, a bad dtype."""
        try:
            raw = json.loads(text)
            tensors = {}
            for t in raw["tensors"]:
                if t["dtype"] not in DTYPE_BYTES:
                    raise ValueError(f"tensor {t['name']} has an unknown element type {t['dtype']!r}")
                tensors[t["name"]] = Tensor(**{**t, "shape": tuple(t["shape"])})
            ops = tuple(Op(**{**o, "inputs": tuple(o["inputs"]), "outputs": tuple(o["outputs"])}) for o in raw["ops"])
            graph = OpGraph(tensors, ops, tuple(raw["inputs"]), tuple(raw["outputs"]))
        except (KeyError, TypeError, json.JSONDecodeError) as e:
            raise ValueError(f"not an op graph: {e}") from None
        for op in ops:
            for name in (*op.inputs, *op.outputs):
                if name not in tensors:
                    raise ValueError(f"op {op.name} names an unknown tensor {name!r}")
        return graph
