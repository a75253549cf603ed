"""The cost of one operation as data, and the names by which rules of cost know operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sol.graph import Op, Tensor


@dataclass(frozen=True)
class Cost:
    """`kind`: matrix | conv | attention | pointwise | reduction | norm | pool | gather | copy | view | none | bytes.

    `matrix`, `vector` in FLOPs, `special` in special-function results; `read`: input name -> bytes; `write`: bytes.
    `needed`: the part of `matrix` that no kernel can skip; None when that is all of it.
    """

    kind: str
    matrix: float = 0.0
    vector: float = 0.0
    special: float = 0.0
    read: Mapping[str, float] = field(default_factory=dict)
    write: float = 0.0
    needed: float | None = None

    @property
    def must(self) -> float:
        """Matrix FLOPs that must be done."""
        return self.matrix if self.needed is None else self.needed

    @property
    def bytes(self) -> float:
        return sum(self.read.values()) + self.write

    @property
    def flops(self) -> float:
        return self.matrix + self.vector

    @property
    def intensity(self) -> float:
        """FLOP/byte of the operation alone, with its inputs and outputs in device memory."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Work:
    """The arguments of a rule: the op, its input and output tensors in order, its other arguments by ATen name."""

    op: Op
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]

    @property
    def out(self) -> Tensor:
        return self.outs[0]

    def attr(self, *names: str, default: Any = None) -> Any:
        for name in names:
            if name in self.op.attrs:
                return self.op.attrs[name]
        return default


_OPERATORS = {"or": "bitwise_or", "and": "bitwise_and", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
              "rshift": "bitwise_right_shift"}  # fmt: skip


def canonical(name: str) -> str:
    """ATen's name without namespace, overload and the underscore of in-place: `aten.add_.Tensor` -> `add`."""
    name = name.removeprefix("aten::").removeprefix("aten.")
    name = name.split(".")[0]
    if name.startswith("__") and name.endswith("__"):  # a Python operator: `__or__`
        name = name.strip("_")
        return _OPERATORS.get(name.removeprefix("i"), _OPERATORS.get(name, name))
    return name.rstrip("_") or name
