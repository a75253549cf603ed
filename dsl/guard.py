"""`guard f32`: products in f16 that are never worse than tf32, whatever the operands' range.

f16 and tf32 carry the same 11 significant bits; what f16 lacks is range. So each kernel that converts f32 to f16, a
transform's cast, a product that rounds f32 operands on their way to the tensor cores (`watched`), or a stage that
stores f16 for products alone to read (dsl.narrowed), looks at what it converts, a chunk at a time (what one warp
converts: some hundred neighbouring elements), and raises a flag where a chunk's largest magnitude is neither 0 nor
within [2^-9, 65504], or where it holds a NaN or an infinity. With the flag up the program's own meaning is computed
again, from the parameters on, in f32 on the CUDA cores, over the same results. Those rescue kernels are launched in
every call and leave at once when the flag is down, so nothing ever waits for the host and the whole is one CUDA graph.

Why what passes is no worse than tf32. Rounding x to f16 (normal or subnormal) errs by at most

    2^-11 |x| + 2^-25,

half a unit in the last place: 2^-11 |x| where the result is normal, 2^-25 below 2^-14. A chunk that passes has a
largest magnitude m >= 2^-9 (or is all zeros, which f16 holds), so 2^-25 <= 2^-16 m. tf32 errs by 2^-11 |x| when it
rounds and by up to 2^-10 |x| where the tensor cores cut the low bits off. An operand's error is hence tf32's plus, for
each element, at most 2^-16 of the largest among its neighbours: a thirty-second of what tf32 may do to that one. Both
multiply exactly and accumulate in f32.

`rescue` writes the second pipeline: the same stages in f32, row-major, without the casts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dsl.functions import REDUCTIONS
from dsl.ir import (
    NCHW,
    Also,
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
    Reduce,
    Span,
    Stage,
    TensorType,
    Transform,
    inlined,
)
from dsl.narrowed import able, rounded, watched_stores, wider_reader
from dsl.rules.problem import is_direct, is_rowmajor, types_of

LOW, HIGH = 2.0**-9, 65504.0  # the largest magnitude of a chunk that f16 holds as well as tf32 would
CHUNK = 256  # elements that a chunk has where vectors move; the CPU's meaning takes this everywhere

Objection = tuple[str, Span | None, str | None]


def watched(stage: Stage, source: TensorType) -> bool:
    """Whether a stage converts an operand of type `source` from f32 to f16, which the guard looks at: a transform's
    cast, or a product of f16 that reads f32 (each of its operands is a question of its own)."""
    if source.dtype is not DType.F32:
        return False
    if isinstance(stage, Transform):
        return stage.to is DType.F16
    return isinstance(stage, Collective) and stage.config.compute is DType.F16


def conversions(program: Program, stage: Stage) -> tuple[str, ...]:
    """The tensors that a stage of a typed program converts under the guard's eyes, each once."""
    names = dict.fromkeys(o.name for o in stage.operands)
    return tuple(name for name in names if watched(stage, program.type_of(name)))


def writers(program: Program) -> tuple[str, ...]:
    """The back ends that write a guarded program: `cute` has casts that watch, `cpp` the convolution that does."""
    rows = any(isinstance(s, Conv) and conversions(program, s) for s in program.stages)
    return ("cpp",) if rows else ("cute",)


def objections(program: Program) -> Iterator[Objection]:
    """Why a typed program can have no guard: (message, where or None for the clause itself, what to write instead)."""
    for p in program.params:
        if p.type.dtype not in (DType.F32, DType.I32):
            yield f"a guard watches casts of f32 to f16; {p.name} is {p.type.dtype.value}", p.span, f"{p.name}: f32"
    for s in program.stages:
        if isinstance(s, GroupedGemm) or getattr(s, "pairs", False):
            what = "grouped_gemm" if isinstance(s, GroupedGemm) else "a gemm with pairs"
            yield f"a guard has no f32 kernel for {what}, as {s.name} is", s.span, "leave guard out"
        elif getattr(s, "prepack", False):
            yield "a guard watches every call, and prepack is done once", s.clause_span("prepack"), "leave prepack out"
        elif isinstance(s, Transform) and s.other is not None:
            yield f"a guard does not watch interleave, as {s.name} does", s.span, "leave guard out"
        else:
            yield from _narrow(s, program)
    if not any(conversions(program, s) or rounded(s) for s in program.stages):
        yield "no stage casts f32 to f16, so there is nothing to guard", None, "leave guard out"
    elif "cute" not in writers(program):
        yield from _of_cpp(program)


def _of_cpp(program: Program) -> Iterator[Objection]:
    """What the back end of convolutions that convert their operands itself has no guarded kernels for."""
    for s in program.stages:
        if isinstance(s, Transform) and conversions(program, s):
            what = f"a convolution converts its operands itself, and {s.name} is a cast"
            yield f"under one guard {what}", s.clause_span("to"), "leave the cast out, or cast all operands"
        elif watched_stores(program, s):
            what = f"a convolution converts its operands itself, and {s.name} is rounded where it is stored"
            yield f"under one guard {what}", s.clause_span("store"), "store f32"
        elif isinstance(s, Gemm) or (isinstance(s, Conv) and s.transposed and prod(s.stride) * s.groups != 1):
            kind = "a gemm" if isinstance(s, Gemm) else "a transposed convolution of a stride or groups"
            what = f"{kind} beside a convolution that converts its operands itself, as {s.name} is"
            yield f"a guard has no f32 kernel for {what}", s.span, "leave guard out"


def _narrow(s: Stage, program: Program) -> Iterator[Objection]:
    """What leaves f32 elsewhere than where the guard looks."""
    if isinstance(s, Transform):
        if s.type.dtype is DType.F16 and s.name in program.results:
            yield f"result {s.name} is f16, which holds less than f32", s.clause_span("to"), "leave guard out"
        if s.type.dtype not in (DType.F16, DType.F32) or (s.to is DType.F32):
            what = f"{s.name} casts to {s.type.dtype.value}"
            yield f"a guard watches casts of f32 to f16; {what}", s.clause_span("to"), "leave guard out"
        return
    yield from _stored(s, program)
    if not isinstance(s, Collective) or (isinstance(s, Conv) and is_direct(s, types_of(program))):
        return
    for o in s.operands[:2]:
        source = program.type_of(o.name)
        if watched(s, source) or (source.dtype is DType.F16 and s.config.compute in (None, DType.F16)):
            continue
        name = (s.config.compute or DType.TF32).value
        message = f"under a guard products are of f16; {s.name} computes {name} from {source.dtype.value}"
        rows = isinstance(s, Conv) and is_rowmajor(s, types_of(program))
        help = "compute f16" if rows else f"{o.name}_h = transform({o.name}) {{ to f16 }}"
        yield message, s.clause_span("compute"), help
        return


def _stored(s: Stage, program: Program) -> Iterator[Objection]:
    """What is stored narrower than f32, and either not watched there or read by who needs more."""
    for name, t in ((s.name, s.type), *((a.name, a.type) for a in s.also)):
        if t.dtype in (DType.F32, DType.I32):
            continue
        reader = wider_reader(program, name)
        if t.dtype is DType.F16 and reader is None and able(program, s):
            continue
        message = f"{name} is rounded to {t.dtype.value} where it is stored"
        if t.dtype is not DType.F16:
            message = f"a guard watches what is rounded to f16, and {message}"
        elif reader is not None:
            message += f", and {reader} may need what f32 holds"
        else:
            message += ", which a guard watches in products, normalize and map alone"
        yield message, s.clause_span("store"), "store f32"


# ---- the same program in f32 ----------------------------------------------------------------------------------


def rescue(program: Program) -> Program:
    """The pipeline of a guarded program without its casts and layouts: f32 (i32 stays), row-major, on the CUDA cores.

    Parameters and results keep their names and order. A reduction in a product's epilogue is a stage of its own here.
    """
    return _Rescue(program).run()


class _Rescue:
    def __init__(self, program: Program):
        self.program = program
        self.stages: list[Stage] = []
        self.same: dict[str, str] = {}  # what is another name here -> the tensor
        self.types = {p.name: p.type for p in program.params}
        self.taken = {p.name for p in program.params}
        for s in program.stages:
            self.taken |= {s.name, *(a.name for a in s.also)}

    def run(self) -> Program:
        for s in self.program.stages:
            self._transform(s) if isinstance(s, Transform) else self._stage(s)
        p = self.program
        made = {n for s in self.stages for n in (s.name, *(a.name for a in s.also))}
        renames: dict[str, str] = {}
        for r in p.results:
            source = self._name(r)
            if source == r:
                continue
            if source in made and source not in p.results and source not in renames:
                renames[source] = r  # written where the result lies
            else:
                self.types[r] = self.types[source]
                self.stages.append(Map(name=r, x=Operand(source), type=self.types[r]))
        stages = tuple(_renamed(s, renames) for s in self.stages)
        return replace(p, stages=stages, graph=False, guard=False)

    def _name(self, name: str) -> str:
        while name in self.same:
            name = self.same[name]
        return name

    def _type(self, t: TensorType) -> TensorType:
        return TensorType(DType.I32 if t.dtype is DType.I32 else DType.F32, t.shape, NCHW)

    def _transform(self, s: Transform) -> None:
        if s.view is None and s.permute is None and s.pad is None and s.crop is None:
            self.same[s.name] = s.x.name
            return
        self.types[s.name] = self._type(s.type)
        self.stages.append(
            replace(s, x=self._operand(s.x), to=None, store_layout=None, type=self.types[s.name], clauses=())
        )

    def _operand(self, o: Operand) -> Operand:
        return replace(o, name=self._name(o.name))

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, name=self._name(e.name))
        return replace(e, args=tuple(map(self._expr, e.args))) if isinstance(e, Call) else e

    def _stage(self, s: Stage) -> None:
        changes: dict[str, object] = {}
        for field in ("a", "b", "x", "w"):
            if hasattr(s, field):
                changes[field] = self._operand(getattr(s, field))
        if hasattr(s, "params"):
            changes["params"] = tuple(map(self._operand, s.params))
        if hasattr(s, "of"):
            changes["of"] = self._expr(s.of)
        if isinstance(s, Collective):
            changes["config"] = Config(compute=DType.F32)
        lets = tuple(replace(x, expr=self._expr(x.expr)) for x in s.lets)
        also = tuple(replace(a, expr=self._expr(a.expr), type=a.type and self._type(a.type)) for a in s.also)
        s = replace(
            s, **changes, lets=lets, also=also, epilogue=self._expr(s.epilogue), store=None, store_layout=None,
            type=self._type(s.type), clauses=(),
        )  # fmt: skip
        if isinstance(s, Gemm):
            self._gemm(s)
            return
        for name, t in ((s.name, s.type), *((a.name, a.type) for a in s.also)):
            self.types[name] = t
        self.stages.append(s)

    def _gemm(self, s: Gemm) -> None:
        """Elements are stored; rows and columns are reduced from there."""
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
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _product_shape(a: TensorType, b: TensorType, s: Gemm) -> tuple[int, ...]:
    """Of the whole product, whatever its epilogue leaves."""
    left, right = a.shape, b.shape
    rows, columns = left[-1 if s.a.transposed else -2], right[-2 if s.b.transposed else -1]
    lead = left[:-2] if len(left) >= len(right) else right[:-2]
    return (*lead, rows, columns)


def renamed(program: Program, names: dict[str, str]) -> Program:
    """The program with some of its stages' results under other names."""
    stages = tuple(_renamed(s, names) for s in program.stages)
    return replace(program, stages=stages, results=tuple(names.get(r, r) for r in program.results))


def _renamed(s: Stage, names: dict[str, str]) -> Stage:
    """The stage with tensors under other names."""

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, name=names.get(e.name, e.name))
        return replace(e, args=tuple(map(expr, e.args))) if isinstance(e, Call) else e

    changes: dict[str, object] = {
        f: replace(getattr(s, f), name=names.get(getattr(s, f).name, getattr(s, f).name))
        for f in ("a", "b", "x", "w")
        if hasattr(s, f)
    }
    if hasattr(s, "params"):
        changes["params"] = tuple(replace(o, name=names.get(o.name, o.name)) for o in s.params)
    if hasattr(s, "of"):
        changes["of"] = expr(s.of)
    return replace(
        s, **changes, name=names.get(s.name, s.name), epilogue=expr(s.epilogue),
        lets=tuple(replace(x, expr=expr(x.expr)) for x in s.lets),
        also=tuple(replace(x, name=names.get(x.name, x.name), expr=expr(x.expr)) for x in s.also),
    )  # fmt: skip
