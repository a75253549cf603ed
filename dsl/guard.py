"""`guard f32`: products in f16 whose error is never worse than tf32's, whatever the range of the operands.

f16 and tf32 have the same 11 significant bits, but f16 has less range. Three kinds of kernels convert f32 to f16: a
transform that casts, a product that rounds its f32 operands on the way to the tensor cores (`watched`), and a stage
that stores f16 for products only (dsl.narrowed). Each of them checks the values that it converts, one chunk at a time;
for a product, a kernel before it may check them (dsl.rules.problem).
A chunk is what one warp converts: some hundred neighbouring elements; where the tensor ends within them and elements
are read one by one, its first elements as well, because a warp may have a single one there, which is small by chance.
The kernel sets a flag if the largest magnitude of a chunk is neither 0 nor within [2^-9, 65504], or if the chunk holds
a NaN or an infinity.

If the flag is set, rescue kernels compute the whole program again from its parameters and overwrite the results: in
tf32 where `cute` has a tensor-core kernel that is worth its launches (dsl.lower.plan.rescue), else in f32 on the CUDA
cores. Every call launches the rescue kernels; they exit at once if the flag is not set. So no call waits for the host,
and the whole pipeline is one CUDA graph.

A product that passes the check is no worse than tf32. Rounding x to f16 (normal or subnormal) has an error of at most

    2^-11 |x| + 2^-25,

half a unit in the last place: 2^-11 |x| where the result is normal, 2^-25 below 2^-14. A chunk that passes has a
largest magnitude m >= 2^-9 (or is all zeros, which f16 represents exactly), so 2^-25 <= 2^-16 m. The error of tf32 is
2^-11 |x| if it rounds, and up to 2^-10 |x| where the tensor cores truncate. So each f16 operand has the error of tf32
plus at most 2^-16 of the largest magnitude in its chunk, a thirty-second of the error that tf32 allows for that largest
element. Both multiply exactly and accumulate in f32.

`rescue` builds the second pipeline: the same stages in f32, row-major, without the casts; or with the layouts of the
first, which tensor cores need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dsl.fixes import Help, LeaveOut, help_of, leave_clause, or_else, write_clause
from dsl.functions import REDUCTIONS
from dsl.ir import (
    NCHW,
    Also,
    Attention,
    Call,
    Collective,
    Config,
    Conv,
    DType,
    Expr,
    Gemm,
    GroupedGemm,
    Load,
    Map,
    Operand,
    Program,
    Recurrent,
    Reduce,
    Span,
    Stage,
    TensorType,
    Transform,
    inlined,
)
from dsl.narrowed import able, rounded, watched_stores, wider_reader
from dsl.rules.problem import is_direct, is_rowmajor, types_of

LOW, HIGH = 2.0**-9, 65504.0  # bounds of a chunk's largest magnitude within which f16 is as accurate as tf32
NEAR = 32.0  # a magnitude nearer to a bound than this factor may be beyond it on other inputs
CHUNK = 256  # elements of a chunk in vectorised kernels; the CPU reference uses it everywhere

Objection = tuple[str, Span | None, Help | str | None]
_NO_GUARD = help_of("leave guard out", LeaveOut())
_STORE_F32 = write_clause("store", "f32")


def roomy(least: float, greatest: float) -> bool:
    """Return True if f16 holds chunks whose largest magnitudes lie in this range with room for other inputs."""
    return least >= LOW * NEAR and greatest <= HIGH / NEAR


def watched(stage: Stage, source: TensorType) -> bool:
    """Return True if a stage converts an operand of type `source` from f32 to f16, which the guard checks.

    Such a stage is a transform that casts, or a product in f16 that reads f32; ask for each operand separately.
    """
    if source.dtype is not DType.F32:
        return False
    if isinstance(stage, Transform):
        return stage.to is DType.F16
    return isinstance(stage, Collective) and stage.config.compute is DType.F16


def conversions(program: Program, stage: Stage) -> tuple[str, ...]:
    """The tensors that a stage of a typed program converts from f32 to f16, each once."""
    names = dict.fromkeys(o.name for o in stage.operands)
    return tuple(name for name in names if watched(stage, program.type_of(name)))


def writers(program: Program) -> tuple[str, ...]:
    """The back ends that write a guarded program: `cute` checks casts, `cpp` the operands of its own convolutions."""
    rows = any(isinstance(s, Conv) and conversions(program, s) for s in program.stages)
    return ("cpp",) if rows else ("cute",)


def objections(program: Program) -> Iterator[Objection]:
    """The reasons why a typed program cannot have a guard: (message, span or None for the guard clause, fix)."""
    for p in program.params:
        if p.type.dtype not in (DType.F32, DType.I32):
            yield f"a guard checks casts of f32 to f16; {p.name} is {p.type.dtype.value}", p.span, f"{p.name}: f32"
    for s in program.stages:
        if isinstance(s, GroupedGemm | Recurrent) or getattr(s, "pairs", False):
            description = {GroupedGemm: "grouped_gemm", Recurrent: "recurrent"}.get(type(s), "a gemm with pairs")
            yield f"a guard has no f32 kernel for {s.name}, {description}", s.span, _NO_GUARD
        elif getattr(s, "prepack", False):
            yield "a guard checks every call, and prepack runs once", s.clause_span("prepack"), leave_clause("prepack")
        elif isinstance(s, Gemm) and conversions(program, s):
            name = s.b.name
            yield f"a guard checks casts, and {s.name} casts {name} as it reads it", s.b.span, f"transform {name} first"
        elif isinstance(s, Transform) and s.other is not None:
            yield f"a guard does not check {s.name}, an interleave", s.span, _NO_GUARD
        else:
            yield from _narrow(s, program)
    if not any(conversions(program, s) or rounded(s) for s in program.stages):
        yield "no stage casts f32 to f16, so the guard has nothing to check", None, _NO_GUARD
    elif "cute" not in writers(program):
        yield from _of_cpp(program)


def _of_cpp(program: Program) -> Iterator[Objection]:
    """The stages without a guarded kernel on `cpp`, which writes the convolutions that convert their own operands."""
    for s in program.stages:
        if isinstance(s, Transform) and conversions(program, s):
            reason = f"a convolution here converts its own operands, and {s.name} is a cast"
            yield (
                f"one guard checks one kind: {reason}",
                s.clause_span("to"),
                or_else(help_of("leave the cast out", LeaveOut()), "cast all operands"),
            )
        elif watched_stores(program, s):
            reason = f"a convolution here converts its own operands, and {s.name} is stored in f16"
            yield f"one guard checks one kind: {reason}", s.clause_span("store"), _STORE_F32
        elif isinstance(s, Gemm | Attention) or (
            isinstance(s, Conv) and s.transposed and prod(s.stride) * s.groups != 1
        ):
            kind = {Gemm: "a gemm", Attention: "attention"}.get(
                type(s), "a transposed convolution of a stride or groups"
            )
            reason = f"{s.name}, {kind} beside a convolution that converts its own operands"
            yield f"a guard has no f32 kernel for {reason}", s.span, _NO_GUARD


def _narrow(s: Stage, program: Program) -> Iterator[Objection]:
    """Conversions from f32 that the guard does not check."""
    if isinstance(s, Transform):
        if s.type.dtype is DType.F16 and s.name in program.results:
            yield f"result {s.name} is f16, which has less range than f32", s.clause_span("to"), _NO_GUARD
        widens = s.to is DType.F32 and not _attended(program, s.x.name)
        if s.type.dtype not in (DType.F16, DType.F32) or widens:
            cast = f"{s.name} casts to {s.type.dtype.value}"
            yield f"a guard checks casts of f32 to f16; {cast}", s.clause_span("to"), _NO_GUARD
        return
    yield from _stored(s, program)
    if not isinstance(s, Collective) or (isinstance(s, Conv) and is_direct(s, types_of(program))):
        return
    for o in s.operands[:2]:
        source = program.type_of(o.name)
        if watched(s, source) or (source.dtype is DType.F16 and s.config.compute in (None, DType.F16)):
            continue
        name = (s.config.compute or DType.TF32).value
        message = f"a guard needs products in f16; {s.name} computes {name} from {source.dtype.value}"
        rows = isinstance(s, Conv) and is_rowmajor(s, types_of(program))
        help = write_clause("compute", "f16") if rows else f"{o.name}_h = transform({o.name}) {{ to f16 }}"
        yield message, s.clause_span("compute"), help
        return


def _attended(program: Program, name: str) -> bool:
    """Return True for the result of an attention, at most moved: any stage may read it (dsl.narrowed)."""
    s = next((s for s in program.stages if s.name == name), None)
    return isinstance(s, Attention) or (isinstance(s, Transform) and s.to is None and _attended(program, s.x.name))


def _stored(s: Stage, program: Program) -> Iterator[Objection]:
    """Results that are stored narrower than f32 and are either not checked there or read at more than f16."""
    for name, t in ((s.name, s.type), *((a.name, a.type) for a in s.also)):
        if t.dtype in (DType.F32, DType.I32):
            continue
        reader = wider_reader(program, name)
        reader = None if isinstance(s, Attention) and name not in program.results else reader
        if t.dtype is DType.F16 and reader is None and able(program, s):
            continue
        message = f"{name} is stored in {t.dtype.value}"
        if t.dtype is not DType.F16:
            message = f"a guard checks conversions to f16, and {message}"
        elif reader is not None:
            message += f", and {reader} may need the range of f32"
        else:
            message += "; a guard checks the stores of products, normalize, map and concat only"
        yield message, s.clause_span("store"), _STORE_F32


# ---- the same program in f32 ----------------------------------------------------------------------------------


def rescue(program: Program, layouts: bool = False) -> Program:
    """The pipeline of a guarded program in f32 (i32 stays), row-major, on the CUDA cores, without its casts.

    `layouts`: tensors keep their layouts instead, and so do the transforms that change them. Parameters and results
    keep their names and order. A reduction in a product's epilogue becomes a separate stage.
    """
    return _Rescue(program, layouts).run()


class _Rescue:
    def __init__(self, program: Program, layouts: bool):
        self.program, self.layouts = program, layouts
        self.stages: list[Stage] = []
        self.aliases: dict[str, str] = {}  # the result of a dropped cast -> the tensor that it casts
        self.types = {p.name: p.type for p in program.params}
        self.names = {p.name for p in program.params}
        for s in program.stages:
            self.names |= {s.name, *(a.name for a in s.also)}

    def run(self) -> Program:
        for s in self.program.stages:
            self._transform(s) if isinstance(s, Transform) else self._stage(s)
        p = self.program
        written = {n for s in self.stages for n in (s.name, *(a.name for a in s.also))}
        renames: dict[str, str] = {}
        for r in p.results:
            source = self._name(r)
            if source == r:
                continue
            if source in written and source not in p.results and source not in renames:
                renames[source] = r  # the stage writes the result directly
            else:
                self.types[r] = self.types[source]
                self.stages.append(Map(name=r, x=Operand(source), type=self.types[r]))
        stages = tuple(_renamed(s, renames) for s in self.stages)
        return replace(p, stages=stages, graph=False, guard=False)

    def _name(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def _type(self, t: TensorType) -> TensorType:
        return TensorType(DType.I32 if t.dtype is DType.I32 else DType.F32, t.shape, t.layout if self.layouts else NCHW)

    def _transform(self, s: Transform) -> None:
        lies = self.types[self._name(s.x.name)].layout
        if (s.view, s.permute, s.pad, s.crop) == (None,) * 4 and self._type(s.type).layout == lies:
            self.aliases[s.name] = s.x.name
            return
        self.types[s.name] = self._type(s.type)
        layout = s.store_layout if self.layouts else None
        self.stages.append(
            replace(s, x=self._operand(s.x), to=None, store_layout=layout, type=self.types[s.name], clauses=())
        )

    def _operand(self, o: Operand) -> Operand:
        return replace(o, name=self._name(o.name))

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, name=self._name(e.name))
        return replace(e, args=tuple(map(self._expr, e.args))) if isinstance(e, Call) else e

    def _stage(self, s: Stage) -> None:
        changes: dict[str, object] = {}
        for field in ("a", "b", "x", "w", "q", "k", "v"):
            if isinstance(getattr(s, field, None), Operand):
                changes[field] = self._operand(getattr(s, field))
        for field in ("params", "parts"):
            if isinstance(getattr(s, field, None), tuple):
                changes[field] = tuple(map(self._operand, getattr(s, field)))
        if hasattr(s, "of"):
            changes["of"] = self._expr(s.of)
        if isinstance(s, Collective):
            changes["config"] = Config(compute=DType.F32)
        lets = tuple(replace(x, expr=self._expr(x.expr)) for x in s.lets)
        also = tuple(replace(a, expr=self._expr(a.expr), type=a.type and self._type(a.type)) for a in s.also)
        s = replace(
            s, **changes, lets=lets, also=also, epilogue=self._expr(s.epilogue), store=None,
            store_layout=s.store_layout if self.layouts else None, type=self._type(s.type), clauses=(),
        )  # fmt: skip
        if isinstance(s, Gemm):
            self._gemm(s)
            return
        for name, t in ((s.name, s.type), *((a.name, a.type) for a in s.also)):
            self.types[name] = t
        self.stages.append(s)

    def _gemm(self, s: Gemm) -> None:
        """Store the product's elements, and reduce rows and columns in stages of their own."""
        outs = [(s.name, s.epilogue, s.type), *((a.name, a.expr, a.type) for a in s.also)]
        whole = TensorType(DType.F32, _product_shape(self.types[s.a.name], self.types[s.b.name], s))
        stored, after = [], []
        for name, e, t in outs:
            e = inlined(s, e)
            self.types[name] = t
            if isinstance(e, Call) and e.fn in REDUCTIONS:
                part = self._fresh(f"{name}_whole")
                stored.append((part, e.args[0], whole))
                over = REDUCTIONS[e.fn].over
                op = {"row_sum": "sum", "col_sum": "sum", "row_max": "max", "row_logsumexp": "logsumexp"}[e.fn]
                after.append(Reduce(name=name, x=Operand(part), op=op, over=(over,), type=t))
            else:
                stored.append((name, e, t))
        for name, _, t in stored:
            self.types[name] = t
        (name, e, t), *rest = stored
        also = tuple(Also(n, x, y) for n, x, y in rest)
        self.stages.append(replace(s, name=name, lets=(), epilogue=e, type=t, also=also))
        self.stages += after

    def _fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


def _product_shape(a: TensorType, b: TensorType, s: Gemm) -> tuple[int, ...]:
    """The shape of the product before its epilogue."""
    left, right = a.shape, b.shape
    rows, columns = left[-1 if s.a.transposed else -2], right[-2 if s.b.transposed else -1]
    lead = left[:-2] if len(left) >= len(right) else right[:-2]
    return (*lead, rows, columns)


def renamed(program: Program, names: dict[str, str]) -> Program:
    """The program with the results of some stages renamed by `names` (old name -> new name)."""
    stages = tuple(_renamed(s, names) for s in program.stages)
    return replace(program, stages=stages, results=tuple(names.get(r, r) for r in program.results))


def _renamed(s: Stage, names: dict[str, str]) -> Stage:
    """The stage with its tensors renamed."""

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, name=names.get(e.name, e.name))
        return replace(e, args=tuple(map(expr, e.args))) if isinstance(e, Call) else e

    changes: dict[str, object] = {
        f: replace(getattr(s, f), name=names.get(getattr(s, f).name, getattr(s, f).name))
        for f in ("a", "b", "x", "w", "q", "k", "v")
        if getattr(s, f, None) is not None
    }
    for field in ("params", "parts"):
        if isinstance(getattr(s, field, None), tuple):
            changes[field] = tuple(replace(o, name=names.get(o.name, o.name)) for o in getattr(s, field))
    if hasattr(s, "of"):
        changes["of"] = expr(s.of)
    return replace(
        s, **changes, name=names.get(s.name, s.name), epilogue=expr(s.epilogue),
        lets=tuple(replace(x, expr=expr(x.expr)) for x in s.lets),
        also=tuple(replace(x, name=names.get(x.name, x.name), expr=expr(x.expr)) for x in s.also),
    )  # fmt: skip
