"""Element-wise expressions as device functions, and the accesses of the tensors that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsl.functions import TABLE
from dsl.ir import Acc, Call, DType, Expr, Let, Load, Number, Ref, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.epilogue import literal
from dsl.lower.cpp.functions import FUNCTIONS, OPERATORS
from dsl.lower.cpp.generated.space import Access

ACC = Acc()


@dataclass(frozen=True)
class Value:
    """An expression as a device function `float <name>(float acc, float in_...)`.

    `reads` are the pointers of its arguments after acc, in order. `plain`: the expression is acc alone.
    """

    name: str
    reads: tuple[str, ...]
    statements: tuple[str, ...]
    result: str
    functions: tuple[str, ...]
    plain: bool
    clause: str = "epilogue"

    def call(self, acc: str, read: str = "{}") -> str:
        """The text of a call; `read` is the format of an element's name from its pointer's name."""
        return f"{self.name}({', '.join([acc, *(read.format(r) for r in self.reads)])})"


class Reader:
    """The accesses of the tensors that a stage's expressions read, one for each tensor and set of axes.

    `axes`: the positions of each axis name in the stage's shape.
    """

    def __init__(self, axes: dict[str, tuple[int, ...]], types: dict[str, TensorType], rank: int):
        self.axes, self.types, self.rank = axes, types, rank
        self.pointers: dict[tuple[str, tuple[int, ...], int], str] = {}
        self.names: dict[str, str] = {}  # pointer -> tensor
        self.firsts: dict[str, int] = {}  # pointer -> the element of the tensor at which a part begins

    def pointer(self, load: Load) -> str:
        steps = self.types[load.name].strides
        first = sum((s or 0) * step for s, step in zip(load.starts, steps, strict=False))
        key = (load.name, self.strides(load), first)
        if key not in self.pointers:
            again = sum(name == load.name for name, *_ in self.pointers)
            self.pointers[key] = pointer = f"in_{load.name}" + (f"_{again + 1}_" if again else "")
            self.names[pointer] = load.name
            self.firsts[pointer] = first
        return self.pointers[key]

    def strides(self, load: Load) -> tuple[int, ...]:
        """The strides of a tensor along each position of the stage's shape."""
        kind = self.types[load.name]
        out = [0] * self.rank
        positions = [p for axis in load.axes for p in self.axes[axis]]
        if kind.elements == 1:
            return tuple(out)
        if len(positions) != len(kind.shape):
            raise Refusal(
                "cpp-load",
                f"{load.name}[{', '.join(load.axes)}] names {len(positions)} axes; it has {len(kind.shape)}",
                "view it so that they match",
            )
        for p, step, n in zip(positions, kind.strides, kind.shape, strict=True):
            out[p] = step if n > 1 else 0
        return tuple(out)

    def accesses(self) -> tuple[Access, ...]:
        return tuple(
            Access(pointer, self.types[name].dtype, strides, first)
            for (name, strides, first), pointer in self.pointers.items()
        )


def value(name: str, expr: Expr, lets: Sequence[Let], reader: Reader, clause: str = "epilogue") -> Value:
    """The device function `name` of an expression, reading tensors through `reader`."""
    writer = _Writer({x.name: x.expr for x in lets}, reader)
    result = writer.bare(expr)
    return Value(
        name,
        tuple(writer.reads),
        tuple(writer.statements),
        result,
        tuple(sorted(writer.functions)),
        isinstance(expr, Acc),
        clause,
    )


class _Writer:
    def __init__(self, lets: dict[str, Expr], reader: Reader):
        self.lets, self.reader = lets, reader
        self.reads: dict[str, None] = {}
        self.statements: list[str] = []
        self.written: set[str] = set()
        self.functions: set[str] = set()

    def bare(self, e: Expr) -> str:
        text = self.text(e)
        return text[1:-1] if isinstance(e, Call) and e.fn in OPERATORS else text

    def text(self, e: Expr) -> str:
        if isinstance(e, Acc):
            if e.second:
                raise Refusal("cpp-acc2", "acc2 is the odd column of a gemm with pairs", "write acc")
            return "acc"
        if isinstance(e, Number):
            return literal(e.value)
        if isinstance(e, Load):
            pointer = self.reader.pointer(e)
            self.reads[pointer] = None
            return pointer
        if isinstance(e, Ref):
            if e.name not in self.written:
                self.written.add(e.name)
                self.statements.append(f"float const let_{e.name} = {self.bare(self.lets[e.name])};")
            return f"let_{e.name}"
        return self._call(e)

    def _call(self, e: Call) -> str:
        if e.fn in OPERATORS:
            left, right = (self.text(arg) for arg in e.args)
            return f"({left} {OPERATORS[e.fn]} {right})"
        if e.fn == "neg":
            return f"(-{self.text(e.args[0])})"
        if e.fn not in FUNCTIONS:
            raise Refusal("cpp-function", f"{e.fn} stands in no stage but a gemm", "compute it in the gemm's epilogue")
        args = [self.bare(arg) for arg in e.args]
        args += [literal(a.default) for a in TABLE[e.fn].args[len(args) :]]
        self.functions.add(e.fn)
        return f"fn_{e.fn}({', '.join(args)})"


def replaced(e: Expr, acc: Expr) -> Expr:
    """`e` with acc replaced by another expression."""
    if isinstance(e, Acc):
        return acc
    if isinstance(e, Call):
        return Call(e.fn, tuple(replaced(a, acc) for a in e.args), e.span)
    return e


def floats(dtype: DType) -> bool:
    """Return True if converting an element to f32 and back is exact."""
    return dtype is not DType.I32
