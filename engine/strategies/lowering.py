"""Op graph -> one program: products become `gemm` stages, and what follows each becomes its epilogue.

The graph is walked once, symbolically. A tensor of the graph is, at any point, one of

    Leaf     a tensor as it lies in memory (a parameter of the program, or a stage's stored result), perhaps seen
             with its axes permuted;
    Result   an expression over the accumulator of a stage that is not stored yet, so that more can be fused;
    float    a number.

A product stores the Results it reads; a pointwise operation extends one. What no rule takes is a
SessionRefused("not_covered") that names the operation, its line, and what is covered.

Departures from PyTorch's arithmetic, all towards more precision: a fused chain is evaluated in f32 and rounded
once, where eager rounds after every operation; literals next to each other are folded in double precision.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field, replace
from math import prod

from dsl import ir
from dsl.ir import Acc, Config, DType, Expr, Load, Number
from engine.devices import Binding, SessionRefused
from engine.strategies import pointwise
from sol.graph import Op, OpGraph, Tensor

PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum")
SWAPS = ("transpose", "permute", "t", "mT", "numpy_T")
VIEWS = (*SWAPS, "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "expand")
IDENTITIES = (
    *("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "to", "_to_copy", "type_as"),
    *("dropout", "alpha_dropout", "feature_dropout", "native_dropout"),
)
# What each precision class computes with, and the class in which a module's own element type stands.
COMPUTE = {"tf32": DType.TF32, "f16": DType.F16, "bf16": DType.BF16}
NATIVE = {"f32": "tf32", "f16": "f16", "bf16": "bf16"}
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "pow", "square", "sqrt", "reciprocal", "minimum", "maximum")
_SPELLINGS = {"subtract", "rsub", "multiply", "divide", "true_divide", "negative", "clip", "clamp_min", "clamp_max"}
_RESERVED = {"acc", "gemm", "transform", "program", "return", "arch", "let", "also", "auto", "T", "l", "m", "n"}


def covered() -> str:
    """The operations that can be lowered, for a person: by kind, without the other spellings of the same."""
    changes = {n.rstrip("_") for n in pointwise.OPS if not n.startswith("_")} - _SPELLINGS - set(_ARITHMETIC)
    return (
        f"products ({', '.join(PRODUCTS)}); arithmetic ({', '.join(_ARITHMETIC)}); "
        f"functions of each element ({', '.join(sorted(changes))}); views (view, reshape, transpose, permute); dropout"
    )


def refuse(op: Op | None, why: str) -> SessionRefused:
    """`why` completes the sentence that begins with the operation and its line."""
    line = op.line if op else None
    if op is None:
        return SessionRefused("not_covered", why)
    # The person wrote nn.LSTM, never the aten.zeros that it begins with.
    what = f"`nn.{op.module}`" if op.module else f"`aten.{op.op}`"
    notes = [f"line {line}"] if line else []
    notes += [f"its aten.{op.op}"] if op.module and op.op.replace("_", "") not in op.module.lower() else []
    where = f" ({', '.join(notes)})" if notes else ""
    return SessionRefused("not_covered", f"{what}{where} {why}", line)


@dataclass(frozen=True)
class Leaf:
    """`source`: a graph tensor's name, or the index of a stage whose result is stored.

    `base` is its shape in memory order (row-major) and logical axis i is axis `order[i]` of it.
    """

    source: str | int
    base: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.base[i] for i in self.order)

    @property
    def plain(self) -> bool:
        """In memory order, axes of size 1 aside."""
        real = [i for i in self.order if self.base[i] != 1]
        return real == sorted(real)


@dataclass(frozen=True)
class Result:
    """`expr` over the accumulator of stage number `stage`, seen as `shape` (same elements, same order)."""

    stage: int
    expr: Expr
    shape: tuple[int, ...]


Value = Leaf | Result | float


@dataclass(frozen=True)
class Source:
    """What a stage reads: a graph tensor seen as `shape`, or (an int) an earlier stage."""

    of: str | int
    shape: tuple[int, ...]
    transposed: bool = False


@dataclass
class Stage:
    """A product under construction. `lead`: the logical axes before (M, N) or, when not batched, before N."""

    a: Source
    b: Source
    batch: int | None  # None: a 2-D product
    m: int
    n: int
    k: int
    expr: Expr | None = None  # set when the result is stored
    dtype: str = "f32"  # of the stored result, in the module
    hint: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.m, self.n) if self.batch is None else (self.batch, self.m, self.n)


@dataclass(frozen=True)
class Lowered:
    """A module as a pipeline, free of class and configuration; `program` makes the text's IR."""

    name: str
    params: tuple[ir.Param, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    stages: tuple[Stage, ...]  # expressions name parameters and, as `#i`, stages
    names: tuple[str, ...]  # of the stages
    results: tuple[int, ...]
    keys: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)  # (tensor, shape) -> parameter

    @property
    def dtype(self) -> str:
        """Element type of the products' operands in the module."""
        for stage in self.stages:
            for source in (stage.a, stage.b):
                if isinstance(source.of, str):
                    return self.param(source).type.dtype.value
        return "f32"

    def param(self, source: Source) -> ir.Param:
        name = self.keys[(source.of, source.shape)]
        return next(p for p in self.params if p.name == name)

    def classes(self, allowed: tuple[str, ...]) -> list[str]:
        """The classes of `allowed` that this module may stand in: a half-precision module only in its own."""
        native = NATIVE.get(self.dtype)
        if self.dtype != "f32":
            return [native]
        return [c for c in allowed if c in COMPUTE]

    def program(self, cls: str, configs: tuple[Config, ...] | None = None) -> ir.Program:
        """The program in precision class `cls`: operands cast where the class asks for it, in the timed region.

        `configs`: one a gemm stage (`compute` is filled in here); None leaves every choice `auto`.
        """
        compute = COMPUTE[cls]
        element = DType.F32 if cls == "tf32" else compute
        taken = {p.name for p in self.params} | set(self.names)
        casts: dict[str, ir.Transform] = {}
        out: list[ir.Stage] = []
        stores = self._stores(element)

        def operand(source: Source) -> ir.Operand:
            if isinstance(source.of, int):
                name, dtype = self.names[source.of], stores[source.of]
            else:
                param = self.param(source)
                name, dtype = param.name, param.type.dtype
            if dtype is not element:
                if name not in casts:
                    fresh = _fresh(f"{name}_{element.value}", taken)
                    casts[name] = ir.Transform(fresh, ir.Operand(name), to=element)
                    out.append(casts[name])
                name = casts[name].name
            return ir.Operand(name, source.transposed)

        for i, stage in enumerate(self.stages):
            a, b = operand(stage.a), operand(stage.b)
            config = replace((configs or (Config(),) * len(self.stages))[i], compute=compute)
            expr = pointwise.rename(stage.expr, {f"#{j}": n for j, n in enumerate(self.names)})
            out.append(ir.Gemm(self.names[i], a, b, config, epilogue=expr, store=stores[i]))
        types = tuple(ir.TensorType(stores[i], self.stages[i].shape) for i in self.results)
        return ir.Program(
            self.name, self.params, tuple(out), tuple(self.names[i] for i in self.results), types, arch="sm_90a"
        )

    def _stores(self, element: DType) -> list[DType]:
        """Element type of each stage in memory: the operands' own where only products read it, else the module's."""
        loads = {int(n[1:]) for s in self.stages for n in pointwise.names(s.expr) if n.startswith("#")}
        return [
            element if i not in loads and i not in self.results else DType(stage.dtype)
            for i, stage in enumerate(self.stages)
        ]


def lower(graph: OpGraph, title: str = "module") -> Lowered:
    """Raises SessionRefused("not_covered") naming the first operation that no rule takes."""
    return _Walk(graph, title).run()


class _Walk:
    def __init__(self, graph: OpGraph, title: str):
        self.graph, self.title = graph, title
        self.values: dict[str, Value] = {}
        self.stages: list[Stage] = []
        self.keys: dict[tuple[str, tuple[int, ...]], str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.op: Op | None = None

    def run(self) -> Lowered:
        for name, t in self.graph.tensors.items():
            if t.kind != "intermediate":
                self.values[name] = Leaf(name, t.shape, tuple(range(len(t.shape))))
        for op in self.graph.ops:
            self.op = op
            self._apply(op)
        self.op = None
        results = [self._result(name) for name in self.graph.outputs]
        return self._finish(results)

    # ---- one operation ----

    def _apply(self, op: Op) -> None:
        args = [self.values.get(n) for n in op.inputs]
        if op.op in IDENTITIES:
            if op.attrs.get("train") or op.attrs.get("training"):
                raise refuse(op, "is active in training mode; call `.eval()` semantics are what is optimised here")
            value = self._known(args[0], op.inputs[0])
        elif op.op in VIEWS:
            value = self._view(op, self._known(args[0], op.inputs[0]))
        elif op.op in PRODUCTS:
            value = self._product(op, args)
        elif op.op in pointwise.OPS:
            value = self._pointwise(op, args)
        else:
            raise refuse(op, f"is not covered yet; covered are: {covered()}")
        self.values[op.outputs[0]] = value

    def _known(self, value: Value | None, name: str) -> Value:
        if value is None:
            raise refuse(self.op, f"reads `{name}`, the second result of another operation, which is not covered yet")
        return value

    def _out(self, op: Op) -> Tensor:
        return self.graph.tensors[op.outputs[0]]

    def _view(self, op: Op, value: Value) -> Value:
        shape = self._out(op).shape
        if isinstance(value, float) or (value.shape == shape and op.op not in SWAPS):
            return value
        if op.op in SWAPS:
            if isinstance(value, Result):
                value = self._store(value)
            order = _permutation(op, len(value.shape))
            return Leaf(value.source, value.base, tuple(value.order[i] for i in order))
        if op.op == "expand":  # broadcasting: the operation that reads it sees the sizes
            return value if isinstance(value, Leaf) else self._store(value)
        if isinstance(value, Result):
            return replace(value, shape=shape)
        if value.plain:
            return Leaf(value.source, shape, tuple(range(len(shape))))
        swapped = _reshape_swapped(value, shape)
        if swapped is None:
            raise refuse(op, "would need a copy into another layout, which is not covered yet")
        return swapped

    # ---- products ----

    def _product(self, op: Op, args: list[Value | None]) -> Result:
        alpha, beta = float(op.attrs.get("alpha", 1)), float(op.attrs.get("beta", 1))
        bias: Value | None = None
        swap_b = False
        if op.op in ("addmm", "baddbmm"):
            bias, a, b = args
        elif op.op == "linear":
            a, b, bias = (*args, None)[:3]
            swap_b = True
        elif op.op == "einsum":
            a, b = self._einsum(op, args)
        else:
            a, b = args
        out = self._out(op)
        a, b = self._operand(a), self._operand(b)
        if swap_b:
            b = Leaf(b.source, b.base, (*b.order[:-2], b.order[-1], b.order[-2]))
        shape_a, shape_b = a.shape, b.shape
        if len(shape_a) < 2 or len(shape_b) < 2:
            raise refuse(op, "with a vector is not covered yet; give it two axes, e.g. `v[:, None]`")
        k, n = shape_b[-2:]
        if len(shape_b) == 2:
            rows = prod(shape_a[:-1])
            stage = Stage(self._as(a, (rows, k)), self._as(b, (k, n)), None, rows, n, k)
        else:
            batch = prod(shape_b[:-2])
            if shape_a[:-2] != shape_b[:-2]:
                raise refuse(op, f"of {list(shape_a)} and {list(shape_b)} repeats one side over the batch; "
                                 "covered are equal batch axes, or a 2-D right side")  # fmt: skip
            m = shape_a[-2]
            stage = Stage(self._as(a, (batch, m, k)), self._as(b, (batch, k, n)), batch, m, n, k)
        stage.hint, stage.dtype = op.op, out.dtype
        self.stages.append(stage)
        acc = pointwise.scale(Acc(), alpha)
        result = Result(len(self.stages) - 1, acc, out.shape)
        if bias is not None and beta != 0:
            term = self._term(bias, result)
            result = replace(result, expr=pointwise.binary("add", acc, pointwise.scale(term, beta)))
        return result

    def _einsum(self, op: Op, args: list[Value | None]) -> tuple[Value, Value]:
        """`...k,kn->...n` and `bmk,bkn->bmn`, under any letters and with either side's last axes swapped."""
        equation = str(op.attrs.get("equation", "")).replace(" ", "")
        found = re.fullmatch(r"([a-z]+),([a-z]+)->([a-z]+)", equation, re.I)
        if found and len(args) == 2:
            left, right, out = found.groups()
            if left[:-1] + right.strip(left[-1]) == out and len(right) == 2 and left[-1] in right:
                b = self._operand(args[1])
                flip = right[1] == left[-1]
                return args[0], Leaf(b.source, b.base, b.order[::-1]) if flip else b
            batch = left[:-2]
            if len(left) == len(right) == len(out) >= 3 and right[:-2] == batch == out[:-2]:
                m, n = out[-2:]
                k = set(left[-2:]) - {m}
                if len(k) == 1 and m in left[-2:] and set(right[-2:]) == {n, *k}:
                    a, b = self._operand(args[0]), self._operand(args[1])
                    a = a if left[-2] == m else Leaf(a.source, a.base, _swap(a.order))
                    b = b if right[-1] == n else Leaf(b.source, b.base, _swap(b.order))
                    return a, b
        raise refuse(op, f'with "{equation}" is not covered yet; covered are products such as "bmk,kn->bmn"')

    def _operand(self, value: Value | None) -> Leaf:
        if isinstance(value, Result):
            return self._store(value)
        if isinstance(value, Leaf):
            return value
        raise refuse(self.op, "multiplies by a matrix that is not there")

    def _as(self, leaf: Leaf, shape: tuple[int, ...]) -> Source:
        """A product's side of logical `shape` (..., rows, columns), leading axes merged: read as is or as `.T`."""
        if leaf.plain:
            return Source(leaf.source, self._checked(leaf, shape))
        last = Leaf(leaf.source, leaf.base, _swap(leaf.order))
        if last.plain and (len(leaf.shape) == len(shape) or len(shape) == 3):
            return Source(leaf.source, self._checked(leaf, (*shape[:-2], shape[-1], shape[-2])), True)
        raise refuse(self.op, "reads an operand whose axes are permuted beyond swapping the last two; "
                              "that would need a copy, which is not covered yet")  # fmt: skip

    def _checked(self, leaf: Leaf, shape: tuple[int, ...]) -> tuple[int, ...]:
        stored = self.stages[leaf.source].shape if isinstance(leaf.source, int) else shape
        if stored != shape:
            why = f"reads the result of an earlier product as {list(shape)}, which is stored as {list(stored)}"
            raise refuse(self.op, f"{why}; a reshape between stages is not covered yet")
        return shape

    def _store(self, value: Result) -> Leaf:
        """Fix the stage's epilogue: from here on its result is a tensor in memory."""
        stage = self.stages[value.stage]
        if stage.expr is not None and stage.expr != value.expr:
            raise refuse(self.op, "needs a second result of one product (before and after its epilogue), "
                                  "which is not covered yet")  # fmt: skip
        stage.expr = value.expr
        return Leaf(value.stage, value.shape, tuple(range(len(value.shape))))

    # ---- pointwise ----

    def _pointwise(self, op: Op, args: list[Value | None]) -> Value:
        values = [self._known(v, n) for v, n in zip(args, op.inputs, strict=True)]
        results = [v for v in values if isinstance(v, Result)]
        if not results:
            if any(isinstance(v, Leaf) and isinstance(v.source, int) for v in values):
                raise refuse(op, "follows a product that was already stored for another reader; not covered yet")
            raise refuse(op, "comes before any product; only what follows a product can be fused into it yet")
        last = max(results, key=lambda r: r.stage)
        shape = self._out(op).shape
        if prod(shape) != prod(self.stages[last.stage].shape):
            raise refuse(
                op, f"broadcasts a product of {list(last.shape)} up to {list(shape)}, which is not covered yet"
            )
        target = replace(last, shape=shape)
        terms = [self._term(v, target) for v in values]
        expr = pointwise.apply(op, terms)
        if expr is None:
            raise refuse(op, f"with {pointwise.describe(op)} is not covered yet")
        return Result(last.stage, expr, shape)

    def _term(self, value: Value, target: Result) -> Expr:
        """`value` as it enters the epilogue of the target's stage."""
        if isinstance(value, float):
            return Number(value)
        if isinstance(value, Result):
            if value.stage == target.stage:
                if value.shape != target.shape and prod(value.shape) != prod(target.shape):
                    raise refuse(self.op, "broadcasts a product against itself, which is not covered yet")
                return value.expr
            value = self._store(value)
        if isinstance(value.source, str):
            tensor = self.graph.tensors[value.source]
            if tensor.dtype not in ("f32", "f16", "bf16", "f64"):
                raise refuse(self.op, f"reads a tensor of {tensor.dtype}; an epilogue reads f32, f16 and bf16")
        if not value.plain:
            raise refuse(self.op, "adds an operand in another layout (transposed), which is not covered yet")
        axes, shape = self._axes(value.shape, target)
        if isinstance(value.source, int):
            if self.stages[value.source].shape != self.stages[target.stage].shape:
                raise refuse(self.op, "reads an earlier product of another shape, which is not covered yet")
            return Load(f"#{value.source}", axes)
        return Load(self._param(value.source, shape), axes)

    def _axes(self, shape: tuple[int, ...], target: Result) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Output axes that an operand spans, and its shape over them; PyTorch's right-aligned broadcasting."""
        stage = self.stages[target.stage]
        full = target.shape
        padded = (1,) * (len(full) - len(shape)) + shape
        if len(full) < 2 or full[-1] != stage.n:
            if padded == full:  # element by element, whatever the view
                return (("m", "n") if stage.batch is None else ("l", "m", "n")), stage.shape
            if prod(shape) == 1:
                return (), ()
            raise refuse(
                self.op, f"applies an operand of {list(shape)} to a product seen as {list(full)}; not covered yet"
            )
        if stage.batch is None:
            groups = [("m", full[:-1], padded[:-1]), ("n", full[-1:], padded[-1:])]
        else:
            groups = [("l", full[:-2], padded[:-2]), ("m", full[-2:-1], padded[-2:-1]), ("n", full[-1:], padded[-1:])]
        axes, sizes = [], []
        for name, whole, part in groups:
            if prod(part) == 1:
                continue
            if part != whole:
                raise refuse(self.op, f"broadcasts an operand of {list(shape)} over part of the rows of "
                                      f"{list(full)}, which is not covered yet")  # fmt: skip
            axes.append(name)
            sizes.append(prod(whole))
        return tuple(axes), tuple(sizes)

    # ---- the end ----

    def _result(self, name: str) -> int:
        value = self.values.get(name)
        if isinstance(value, Leaf) and isinstance(value.source, int) and value.plain:
            return value.source
        if isinstance(value, Result):
            stage = self.stages[value.stage]
            self._store(value)
            stage.dtype = self.graph.tensors[name].dtype
            return value.stage
        if isinstance(value, Leaf) and isinstance(value.source, int):
            raise refuse(None, "The module returns a transposed view of a product, which is not covered yet; "
                               "swap the product's sides instead: (a @ b).T is b.T @ a.T")  # fmt: skip
        raise refuse(None, "The module returns something that no product made: there is nothing to optimise yet. "
                           f"Covered are modules around a matrix product, with: {covered()}")  # fmt: skip

    def _param(self, tensor: str, shape: tuple[int, ...]) -> str:
        if (tensor, shape) not in self.keys:
            t = self.graph.tensors[tensor]
            self.keys[(tensor, shape)] = _fresh(t.path or t.name, self.taken)
        return self.keys[(tensor, shape)]

    def _finish(self, results: list[int]) -> Lowered:
        used = sorted(self._reachable(results))
        number = {old: new for new, old in enumerate(used)}
        stages = []
        for old in used:
            stage = self.stages[old]
            expr = pointwise.rename(stage.expr, {f"#{i}": f"#{j}" for i, j in number.items()})
            a, b = (replace(s, of=number[s.of]) if isinstance(s.of, int) else s for s in (stage.a, stage.b))
            stages.append(replace(stage, a=a, b=b, expr=expr))
        self._order_params(stages)
        wanted = {n for s in stages for n in pointwise.names(s.expr)}
        wanted |= {self.keys[(s.of, s.shape)] for st in stages for s in (st.a, st.b) if isinstance(s.of, str)}
        keys = {key: name for key, name in self.keys.items() if name in wanted}
        keys = dict(sorted(keys.items(), key=lambda item: self._rank(item[0][0])))
        params, inputs = [], []
        for (tensor, shape), name in keys.items():
            t = self.graph.tensors[tensor]
            params.append(ir.Param(name, ir.TensorType(_dtype(t), shape)))
            inputs.append(Binding(name, tensor, shape))
        taken = set(self.taken)
        names = [_fresh("y" if i == len(stages) - 1 else f"h{i + 1}", taken) for i in range(len(stages))]
        outputs = [
            Binding(names[number[r]], out, self.stages[r].shape)
            for r, out in zip(results, self.graph.outputs, strict=True)
        ]
        name = _fresh(self.title, set(_RESERVED))
        final = tuple(number[r] for r in results)
        return Lowered(name, tuple(params), tuple(inputs), tuple(outputs), tuple(stages), tuple(names), final, keys)

    def _reachable(self, results: list[int]) -> set[int]:
        seen: set[int] = set()
        todo = list(results)
        while todo:
            i = todo.pop()
            if i in seen:
                continue
            seen.add(i)
            stage = self.stages[i]
            todo += [s.of for s in (stage.a, stage.b) if isinstance(s.of, int)]
            todo += [int(n[1:]) for n in pointwise.names(stage.expr) if n.startswith("#")]
        return seen

    def _order_params(self, stages: list[Stage]) -> None:
        """Name the products' operands too; epilogue operands were named as they were met."""
        for stage in stages:
            for source in (stage.a, stage.b):
                if isinstance(source.of, str):
                    self._param(source.of, source.shape)

    def _rank(self, tensor: str) -> tuple[int, int]:
        """Inputs first, in call order; then parameters and buffers as the module holds them."""
        if tensor in self.graph.inputs:
            return (0, self.graph.inputs.index(tensor))
        return (1, list(self.graph.tensors).index(tensor))


def _dtype(t: Tensor) -> DType:
    try:
        return DType(t.dtype)
    except ValueError:
        raise SessionRefused(
            "not_covered", f"`{t.path or t.name}` has elements of {t.dtype}, which is not covered yet"
        ) from None


def _fresh(wanted: str, taken: set[str]) -> str:
    """An identifier near `wanted` that is not taken yet; marks it taken."""
    base = re.sub(r"\W+", "_", wanted.replace(".", "_"), flags=re.ASCII).strip("_").lower()[:48] or "t"
    if base[0].isdigit() or keyword.iskeyword(base):
        base = f"t_{base}"
    name, i = base, 2
    while name in taken:
        name, i = f"{base}_{i}", i + 1
    taken.add(name)
    return name


def _swap(order: tuple[int, ...]) -> tuple[int, ...]:
    return (*order[:-2], order[-1], order[-2])


def _permutation(op: Op, rank: int) -> list[int]:
    order = list(range(rank))
    if op.op == "permute":
        return [d % rank for d in op.attrs["dims"]]
    if op.op == "numpy_T":
        return order[::-1]
    if rank < 2:
        return order
    i, j = (-2, -1) if op.op in ("t", "mT") else (int(op.attrs["dim0"]), int(op.attrs["dim1"]))
    i, j = i % rank, j % rank
    order[i], order[j] = order[j], order[i]
    return order


def _reshape_swapped(leaf: Leaf, shape: tuple[int, ...]) -> Leaf | None:
    """A reshape of a tensor seen with its last two axes swapped that touches its leading axes alone."""
    if len(leaf.shape) < 2 or len(shape) < 2 or leaf.shape[-2:] != shape[-2:]:
        return None
    if not Leaf(leaf.source, leaf.base, _swap(leaf.order)).plain:
        return None
    base = (*shape[:-2], shape[-1], shape[-2])
    return Leaf(leaf.source, base, _swap(tuple(range(len(shape)))))
