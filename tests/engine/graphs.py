"""Op graphs by hand, as the tracer writes them: quick, and without a sandbox."""

from __future__ import annotations

from typing import Any

from sol.graph import Op, OpGraph, Tensor


class Builder:
    """`g.input("x", (64, 32))`, `y = g.op("linear", [x, w], (64, 16))`, `g.graph(y)`."""

    def __init__(self, dtype: str = "f32"):
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []

    def _add(self, name: str, shape: tuple[int, ...], kind: str, path: str = "", dtype: str = "") -> str:
        self.tensors[name] = Tensor(name, shape, dtype or self.dtype, kind, path)
        return name

    def input(self, name: str, shape: tuple[int, ...], dtype: str = "") -> str:
        self.inputs.append(name)
        return self._add(name, shape, "input", dtype=dtype)

    def parameter(self, path: str, shape: tuple[int, ...]) -> str:
        return self._add(path.replace(".", "_"), shape, "parameter", path)

    def buffer(self, path: str, shape: tuple[int, ...]) -> str:
        return self._add(path.replace(".", "_"), shape, "buffer", path)

    def op(self, op: str, inputs: list[str], shape: tuple[int, ...], dtype: str = "", **attrs: Any) -> str:
        name = f"{op}_{len(self.ops)}"
        self._add(name, shape, "intermediate", dtype=dtype)
        self.ops.append(Op(name, op, tuple(inputs), (name,), attrs, len(self.ops) + 1))
        return name

    def graph(self, *outputs: str) -> OpGraph:
        return OpGraph(self.tensors, tuple(self.ops), tuple(self.inputs), outputs)


def linear(
    tail: list[tuple[str, dict[str, Any]]] = (), *, rows: int = 256, k: int = 128, n: int = 192, bias: bool = True,
    dtype: str = "f32",
) -> OpGraph:  # fmt: skip
    """A linear layer and pointwise operations of one tensor after it."""
    g = Builder(dtype)
    x, w = g.input("x", (rows, k)), g.parameter("linear.weight", (n, k))
    reads = [x, w] + ([g.parameter("linear.bias", (n,))] if bias else [])
    y = g.op("linear", reads, (rows, n))
    for op, attrs in tail:
        y = g.op(op, [y], (rows, n), **attrs)
    return g.graph(y)
