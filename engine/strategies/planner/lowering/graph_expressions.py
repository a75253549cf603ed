"""Epilogue expressions as ATen ops of a graph, for engine.strategies.planner.lowering.program_graph."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dsl.functions import COMPARISONS
from dsl.ir import Acc, Call, DType, Expr, Load, Number, Program, Ref, TensorType
from sol.graph import Op, Tensor

# function -> (op, names of its literal arguments, fixed attributes)
_ATEN: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "leaky_relu": ("leaky_relu", ("negative_slope",), {}),
    "elu": ("elu", ("alpha",), {}),
    "gelu": ("gelu", (), {"approximate": "none"}),
    "gelu_tanh": ("gelu", (), {"approximate": "tanh"}),
    "clamp": ("clamp", ("min", "max"), {}),
    "hardtanh": ("hardtanh", ("min_val", "max_val"), {}),
    "min": ("minimum", (), {}),
    "max": ("maximum", (), {}),
    "triu": ("triu", ("diagonal",), {}),
    "tril": ("tril", ("diagonal",), {}),
}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # the same comparison with its sides exchanged
_REDUCED = {"row_sum": ("sum", -1), "row_max": ("amax", -1), "col_sum": ("sum", -2), "row_logsumexp": ("logsumexp", -1)}


class Expressions:
    """The ops and tensors of a graph under construction, and the names that the open stage's expressions may use.

    `fresh`: the results of the open stage's own computation, which have no other reader.
    """

    def __init__(self, program: Program):
        self.program = program
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.line: int | None = None
        self.fresh: set[str] = set()
        self.lets: dict[str, str | float] = {}
        self.axes: Mapping[str, tuple[int, ...]] = {}
        self.acc, self.second = "", None

    def open(self, axes: Mapping[str, tuple[int, ...]], acc: str, second: str | None) -> None:
        """Start a stage's expressions: the axes of `acc` by name."""
        self.axes, self.acc, self.second, self.lets = axes, acc, second, {}

    def emit(
        self, op: str, inputs: list[str], t: TensorType, attrs: dict[str, Any], name: str = "", *, fresh: bool = False
    ) -> str:
        out = name or f"t{len(self.ops)}_{op}"
        self.tensors[out] = Tensor(out, t.shape, t.dtype.value, "intermediate")
        self.ops.append(Op(f"op{len(self.ops)}", op, tuple(inputs), (out,), attrs, self.line))
        if fresh:
            self.fresh.add(out)
        return out

    def type_of(self, name: str) -> TensorType:
        t = self.tensors[name]
        return TensorType(DType(t.dtype), t.shape)

    def numbers(self, name: str, dtype: DType = DType.F32) -> str:
        """A tensor as expressions compute with it: whole numbers as floats."""
        t = self.type_of(name)
        if t.dtype is not DType.I8:
            return name
        return self.emit("to", [name], TensorType(dtype, t.shape), {"dtype": dtype.value}, fresh=True)

    def rename(self, old: str, new: str) -> None:
        """Give an op's result its stage's name, also in its readers."""
        self.tensors[new] = replace(self.tensors.pop(old), name=new)
        at = {old: new}
        self.ops = [
            replace(op, inputs=tuple(at.get(n, n) for n in op.inputs), outputs=tuple(at.get(n, n) for n in op.outputs))
            for op in self.ops
        ]
        self.fresh.discard(old)
        self.acc = at.get(self.acc, self.acc)
        self.lets = {k: at.get(v, v) for k, v in self.lets.items()}

    def value(self, e: Expr) -> str:
        """The tensor with an expression's value. The expression must read a tensor, as those of checked programs do."""
        tensor = self.part(e)
        assert isinstance(tensor, str), "an expression of a checked program reads acc"
        return tensor

    def part(self, e: Expr) -> str | float:
        """As `value`, but a number for an expression that is one."""
        if isinstance(e, Acc):
            return self.second if e.second else self.acc
        if isinstance(e, Number):
            return e.value
        if isinstance(e, Ref):
            return self.lets[e.name]
        if isinstance(e, Load):
            return self.numbers(self._load(e), DType(self.tensors[self.acc].dtype))
        assert isinstance(e, Call)
        dtype = DType(self.tensors[self.acc].dtype)
        args = [self.part(a) for a in e.args]
        tensors = [a for a in args if isinstance(a, str)]
        numbers = [a for a in args if not isinstance(a, str)]
        if not tensors:
            return self._folded(e.fn, numbers)
        result = TensorType(dtype, self._broadcast(tensors))
        if e.fn in _REDUCED:
            op, dim = _REDUCED[e.fn]
            shape = tuple(d for i, d in enumerate(result.shape) if i != len(result.shape) + dim)
            return self.emit(op, tensors, TensorType(dtype, shape), {"dim": [dim], "keepdim": False})
        if e.fn in ("add", "sub", "mul", "div") and len(tensors) == 1 and len(numbers) == 1:
            if isinstance(args[0], str):
                return self.emit(e.fn, tensors, result, {"other": numbers[0]})
            if e.fn == "div":
                inverse = self.emit("reciprocal", tensors, result, {})
                return self.emit("mul", [inverse], result, {"other": numbers[0]})
            return self.emit("rsub" if e.fn == "sub" else e.fn, tensors, result, {"other": numbers[0]})
        if e.fn in ("min", "max") and len(tensors) == 1 and len(numbers) == 1:
            return self.emit("clamp", tensors, result, {"max" if e.fn == "min" else "min": numbers[0]})
        if e.fn in COMPARISONS:
            return self._to(self._compared(e.fn, args, result), result)
        if e.fn == "where":
            condition = self._compared("ne", [args[0], 0.0], result) if isinstance(args[0], str) else args[0]
            return self._where(condition, args[1:], result)
        op, names, fixed = _ATEN.get(e.fn, (e.fn, (), {}))
        if e.fn in ("triu", "tril"):
            numbers = [int(n) for n in numbers]
        return self.emit(op, tensors, result, {**dict(zip(names, numbers, strict=False)), **fixed})

    def _compared(self, fn: str, args: list[str | float], like: TensorType) -> str:
        """A comparison of a tensor with a tensor or a number: a tensor of booleans."""
        if not isinstance(args[0], str):
            fn, args = _TURNED.get(fn, fn), args[::-1]
        attrs = {} if isinstance(args[1], str) else {"other": args[1]}
        out = self.emit(fn, [a for a in args if isinstance(a, str)], like, attrs)
        self.tensors[out] = replace(self.tensors[out], dtype="bool")
        return out

    def _to(self, name: str, like: TensorType) -> str:
        return self.emit("to", [name], like, {"dtype": like.dtype.value})

    def _where(self, condition: str | float, args: list[str | float], like: TensorType) -> str | float:
        if not isinstance(condition, str):
            return args[0] if condition != 0 else args[1]
        numbers = {n: a for n, a in zip(("self", "other"), args, strict=True) if not isinstance(a, str)}
        return self.emit("where", [condition, *(a for a in args if isinstance(a, str))], like, numbers)

    def _folded(self, fn: str, numbers: list[float]) -> float:
        """A literal alone, folded as the back ends do."""
        from engine.strategies.planner.lowering.pointwise import binary

        if fn in COMPARISONS:
            return float(getattr(operator, fn)(*numbers))
        if fn == "where":
            return numbers[1] if numbers[0] != 0 else numbers[2]
        folded = binary(fn, *(Number(n) for n in numbers)) if len(numbers) == 2 else None
        return folded.value if isinstance(folded, Number) else -numbers[0]

    def _broadcast(self, names: list[str]) -> tuple[int, ...]:
        shapes = [self.tensors[n].shape for n in names]
        rank = max((len(s) for s in shapes), default=0)
        return tuple(max(((1,) * (rank - len(s)) + s)[i] for s in shapes) for i in range(rank))

    def _load(self, load: Load) -> str:
        """The operand with axes of size 1 where it does not span the result, without leading ones."""
        t = self.program.type_of(load.name)
        if not load.axes:
            return load.name
        tensor, sizes, at = load.name, list(t.shape), {}
        if load.starts:
            extents = self.tensors[self.acc].shape
            read = [extents[self.axes[a][0]] for a in load.axes]
            sizes = [d if s is None else r for d, s, r in zip(sizes, load.starts, read, strict=True)]
            tensor = self.part_of(load.name, tuple(sizes), tuple(s or 0 for s in load.starts))
            t = TensorType(t.dtype, tuple(sizes))
        for name in load.axes:
            for position in self.axes[name]:
                at[position] = sizes.pop(0)
        rank = len(self.tensors[self.acc].shape)
        shape = tuple(at.get(i, 1) for i in range(min(at), rank))
        if shape == t.shape:
            return tensor
        return self.emit("view", [tensor], TensorType(t.dtype, shape), {"size": list(shape)})

    def part_of(self, name: str, crop: tuple[int, ...], start: tuple[int, ...]) -> str:
        """The part of a tensor of shape `crop` that begins at `start` (zeros by default), a slice an axis."""
        for axis, size in enumerate(crop):
            shape, first = self.tensors[name].shape, start[axis] if start else 0
            if size != shape[axis]:
                cut = TensorType(DType(self.tensors[name].dtype), (*shape[:axis], size, *shape[axis + 1 :]))
                attrs = {"dim": axis, "start": first, "end": first + size, "step": 1}
                name = self.emit("slice", [name], cut, attrs)
        return name
