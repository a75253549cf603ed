"""A μCUTLASS program as an op graph: the inverse of lowering, for a session that begins with a pasted program.

The graph says in ATen's words what the program computes, so that its limit and PyTorch's time are priced as for a
module. Parameters become inputs of the same names; casts become `to`.
"""

from __future__ import annotations

from typing import Any

from dsl.ir import (
    Acc,
    Call,
    Collective,
    DType,
    Expr,
    Gemm,
    Load,
    Number,
    Operand,
    Program,
    TensorType,
    Transform,
    gemm_shape,
)
from engine.devices import Binding
from sol.graph import Op, OpGraph, Tensor

_ATEN: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    # function -> (op, names of its literal arguments, fixed attributes)
    "relu": ("relu", (), {}),
    "leaky_relu": ("leaky_relu", ("negative_slope",), {}),
    "gelu": ("gelu", (), {"approximate": "none"}),
    "gelu_tanh": ("gelu", (), {"approximate": "tanh"}),
    "clamp": ("clamp", ("min", "max"), {}),
    "min": ("minimum", (), {}),
    "max": ("maximum", (), {}),
}


_NARROWEST_FIRST = ((DType.I8,), (DType.E4M3, DType.E5M2), (DType.BF16,), (DType.F16,), (DType.TF32,))


def class_of(program: Program) -> str:
    """The precision class that a program stands in: the narrowest operands among its products."""
    found = set()
    for s in program.stages:
        if isinstance(s, Collective):
            operand = program.type_of(s.operands[0].name).dtype
            found.add(s.config.compute or (DType.TF32 if operand is DType.F32 else operand))
    for dtypes in _NARROWEST_FIRST:
        if found & set(dtypes):
            return "fp8" if DType.E4M3 in dtypes else dtypes[0].value
    return "f32"


def bindings(program: Program) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """Parameters and results under their own names."""
    inputs = tuple(Binding(p.name, p.name, p.type.shape) for p in program.params)
    outputs = tuple(Binding(name, name, t.shape) for name, t in zip(program.results, program.result_types, strict=True))
    return inputs, outputs


def graph_of(program: Program) -> OpGraph:
    """The op graph of a checked program."""
    return _Builder(program).run()


class _Builder:
    def __init__(self, program: Program):
        self.program = program
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.line: int | None = None

    def run(self) -> OpGraph:
        p = self.program
        for param in p.params:
            self.tensors[param.name] = Tensor(param.name, param.type.shape, param.type.dtype.value, "input")
        for stage in p.stages:
            self.line = stage.span.line or None
            if isinstance(stage, Transform):
                self._emit("to", [stage.x.name], stage.type, {"dtype": stage.to.value}, stage.name)
            else:
                self._gemm(stage)
        return OpGraph(self.tensors, tuple(self.ops), tuple(x.name for x in p.params), tuple(p.results))

    def _emit(self, op: str, inputs: list[str], t: TensorType, attrs: dict[str, Any], name: str = "") -> str:
        out = name or f"t{len(self.ops)}_{op}"
        self.tensors[out] = Tensor(out, t.shape, t.dtype.value, "intermediate")
        self.ops.append(Op(f"op{len(self.ops)}", op, tuple(inputs), (out,), attrs, self.line))
        return out

    def _gemm(self, stage: Gemm) -> None:
        a, b = self._side(stage.a), self._side(stage.b)
        operand = self.program.type_of(stage.a.name).dtype
        result = TensorType(operand, stage.type.shape)
        plain = isinstance(stage.epilogue, Acc) and stage.type.dtype is operand
        acc = self._emit("matmul", [a, b], result, {}, stage.name if plain else "")
        if plain:
            return
        out = self._expr(stage.epilogue, acc, result, stage)
        last = self.ops[-1]
        if self.tensors[out].dtype != stage.type.dtype.value or last.outputs != (out,):
            self._emit("to", [out], stage.type, {"dtype": stage.type.dtype.value}, stage.name)
        else:  # give the last operation's result the stage's name
            self.ops[-1] = Op(last.name, last.op, last.inputs, (stage.name,), last.attrs, last.line)
            self.tensors[stage.name] = Tensor(stage.name, *self._shape(out), "intermediate")
            del self.tensors[out]

    def _shape(self, name: str) -> tuple[tuple[int, ...], str]:
        return self.tensors[name].shape, self.tensors[name].dtype

    def _side(self, o: Operand) -> str:
        t = self.program.type_of(o.name)
        if not o.transposed:
            return o.name
        shape = (*t.shape[:-2], t.shape[-1], t.shape[-2])
        return self._emit("transpose", [o.name], TensorType(t.dtype, shape), {"dim0": -2, "dim1": -1})

    def _expr(self, e: Expr, acc: str, t: TensorType, stage: Gemm) -> str | float:
        if isinstance(e, Acc):
            return acc
        if isinstance(e, Number):
            return e.value
        if isinstance(e, Load):
            return self._load(e, stage)
        assert isinstance(e, Call)
        args = [self._expr(a, acc, t, stage) for a in e.args]
        tensors = [a for a in args if isinstance(a, str)]
        numbers = [a for a in args if not isinstance(a, str)]
        shape = self._broadcast(tensors)
        if not tensors:  # a literal alone: folded here, as the back ends do
            from engine.strategies.pointwise import binary

            folded = binary(e.fn, *(Number(n) for n in numbers)) if len(numbers) == 2 else None
            return folded.value if isinstance(folded, Number) else -numbers[0]
        result = TensorType(t.dtype, shape)
        if e.fn in ("add", "sub", "mul", "div") and len(tensors) == 1:
            if isinstance(args[0], str):
                return self._emit(e.fn, tensors, result, {"other": numbers[0]})
            if e.fn == "div":
                inverse = self._emit("reciprocal", tensors, result, {})
                return self._emit("mul", [inverse], result, {"other": numbers[0]})
            return self._emit("rsub" if e.fn == "sub" else e.fn, tensors, result, {"other": numbers[0]})
        if e.fn in ("min", "max") and len(tensors) == 1:
            return self._emit("clamp", tensors, result, {"max" if e.fn == "min" else "min": numbers[0]})
        op, names, fixed = _ATEN.get(e.fn, (e.fn, (), {}))
        return self._emit(op, tensors, result, {**dict(zip(names, numbers, strict=True)), **fixed})

    def _broadcast(self, names: list[str]) -> tuple[int, ...]:
        shapes = [self.tensors[n].shape for n in names]
        rank = max((len(s) for s in shapes), default=0)
        return tuple(max(((1,) * (rank - len(s)) + s)[i] for s in shapes) for i in range(rank))

    def _load(self, load: Load, stage: Gemm) -> str:
        """The operand with axes of size 1 where it does not span the output."""
        t = self.program.type_of(load.name)
        full = stage.type.shape
        if not load.axes or (load.axes[-1] == "n" and "m" not in load.axes and "l" not in load.axes):
            return load.name
        shape: tuple[int, ...] = ()
        g = gemm_shape(self.program, stage)
        if len(full) > 2:
            shape += full[:-2] if "l" in load.axes else (1,) * (len(full) - 2)
        shape += (g.m if "m" in load.axes else 1, g.n if "n" in load.axes else 1)
        if shape == t.shape:
            return load.name
        return self._emit("view", [load.name], TensorType(t.dtype, shape), {"size": list(shape)})
