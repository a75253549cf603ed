"""Lower an op graph to one pipeline: products, convolutions, pools, reductions and normalisations become stages, and
the operations after each become its epilogue.

The graph is walked once, symbolically (engine.strategies.planner.lowering.lowering_context). Each operation's rule
returns a value: an expression over the stage that computes it, a tensor in memory, or a number. The pipeline is
independent of precision class, layouts and configurations, which engine.strategies.planner.lowering.pipeline chooses.

Differences from PyTorch's arithmetic, all towards more precision: a fused chain is evaluated in f32 and rounded once,
where eager rounds after every operation; adjacent literals are folded in double precision.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

from dsl import ir
from dsl.ir import DType, Expr
from engine.devices import Binding, SessionRefused
from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.drafts import (
    OVER_ELEMENTS,
    Convolution,
    Draft,
    Leaf,
    Product,
    Rearrangement,
    Result,
    Source,
    Value,
    part_of,
    reference,
    stage_of,
)
from engine.strategies.planner.lowering.expressions import deep
from engine.strategies.planner.lowering.lowering_context import MASK, READABLE, LoweringContext, key, unkey
from engine.strategies.planner.lowering.norm_stores import stored_by_norms
from engine.strategies.planner.lowering.rules import attention as attentions
from engine.strategies.planner.lowering.rules.composites import COMPOSITES, LOSSES, expanded
from engine.strategies.planner.lowering.rules.concatenation import CONCATENATIONS, concatenation
from engine.strategies.planner.lowering.rules.gates import GATES, without_gates
from engine.strategies.planner.lowering.rules.masks import vanishing, without_masks
from engine.strategies.planner.lowering.rules.nonproduct import (
    CONVOLUTIONS,
    NORMALIZATIONS,
    POOLS,
    REDUCTIONS,
    convolution,
    normalization,
    pool,
    reduction,
)
from engine.strategies.planner.lowering.rules.products import PRODUCTS, product
from engine.strategies.planner.lowering.rules.recurrent import STAGE, layered, layers, recurrent
from engine.strategies.planner.lowering.rules.row_splits import roomy
from engine.strategies.planner.lowering.rules.scans import SCANS, scan, turned, turning
from engine.strategies.planner.lowering.rules.slices import slices
from engine.strategies.planner.lowering.rules.views import VIEWS, still, view
from engine.strategies.planner.lowering.rules.written_norms import recognised
from engine.strategies.planner.refusals import blamed, refuse
from engine.words import class_name
from sol.graph import SLICES, Op, OpGraph

DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "native_dropout")
IDENTITIES = ("contiguous", "clone", "detach", "alias", "lift_fresh_copy", *pointwise.CASTS, *DROPOUTS)
NATIVE = {"f32": "tf32", "f16": "f16", "bf16": "bf16"}  # the class of a module's own element type
NOTHING_MADE = "The module returns something that no stage made: there is nothing to optimise yet."
FLOATS = ", ".join(map(class_name, NATIVE))  # element types of a program's operands
CLASSES = ("tf32", "f16", "bf16", "fp8")  # classes of programs
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "pow", "square", "sqrt", "reciprocal", "minimum", "maximum")
_SPELLINGS = {"subtract", "rsub", "multiply", "divide", "true_divide", "negative", "clip", "clamp_min", "clamp_max",
              "amax", "amin", "mv", "exp2", "log2", "log10", "addcmul", "addcdiv", "expm1", "log1p"}  # fmt: skip
_RESERVED = {
    *("acc", "acc2", "gemm", "transform", "program", "return", "arch", "launch", "stage", "let", "also", "auto", "T"),
    *("l", "m", "n", "map", "reduce", "normalize", "scan", "pool", "grouped_gemm", *CONVOLUTIONS),
}


def covered() -> tuple[tuple[str, str], ...]:
    """The operations that can be lowered, for a person: (kind, names), without alternative spellings."""
    changes = {n.rstrip("_") for n in pointwise.OPS if not n.startswith("_")} - _SPELLINGS - set(_ARITHMETIC)
    return (
        ("products", ", ".join(n for n in PRODUCTS if n not in _SPELLINGS)),
        ("convolutions", "conv and conv_transpose, 1d to 3d"),
        ("pools", "max, avg"),
        ("reductions", ", ".join([*(n for n in REDUCTIONS if n not in _SPELLINGS), "linalg_vector_norm"])),
        ("attention", attentions.SDPA),
        ("recurrent", "lstm, gru, rnn"),
        ("normalisations", ", ".join(NORMALIZATIONS)),
        ("running sums and products", ", ".join(SCANS)),
        ("losses", ", ".join(LOSSES)),
        ("gates", ", ".join(GATES)),
        ("arithmetic", ", ".join(_ARITHMETIC)),
        ("comparisons", "lt, le, gt, ge, eq, ne, and, or, not, xor"),
        ("functions of each element", ", ".join(sorted(changes - set(pointwise.TRUTHS) | {"where"}))),
        ("views", "view, reshape, transpose, permute, slice, chunk, split"),
        ("joined", ", ".join(CONCATENATIONS)),
        ("dropout", ""),
    )


@dataclass(frozen=True)
class Lowered:
    """A module as a pipeline, independent of class and configuration. Expressions and sources name tensors by
    reference; `keys`: (graph tensor, shape) -> its parameter; `names`: of each draft's results."""

    name: str
    params: tuple[ir.Param, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    stages: tuple[Draft, ...]
    names: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]  # references
    keys: dict[tuple[str, tuple[int, ...]], str]

    @property
    def dtype(self) -> str:
        """Element type of the module's operands of products and convolutions, or else of the first stage."""
        order = sorted(self.stages, key=lambda s: not isinstance(s, Product | Convolution))
        for stage in order:
            for source in stage.sources:
                if stage_of(source.of) is None:
                    return self.param(source.of, source.shape).type.dtype.value
        return "f32"

    def param(self, tensor: str, shape: tuple[int, ...]) -> ir.Param:
        name = self.keys[(tensor, shape)]
        return next(p for p in self.params if p.name == name)

    def classes(self, allowed: tuple[str, ...]) -> list[str]:
        """The classes of `allowed` in which this module may have programs: a half-precision module only in its own
        class and, if requested, in fp8."""
        if self.dtype != "f32":
            own = [NATIVE[self.dtype]] if self.dtype in NATIVE and allowed != ("fp8",) else []
            return own + [c for c in allowed if c == "fp8" and self.dtype in NATIVE]
        return [c for c in allowed if c in CLASSES]

    def program(self, cls: str) -> ir.Program:
        """The plainest program in precision class `cls`, unchecked, with every configuration `auto`."""
        from engine.strategies.planner.lowering.choice import Choice
        from engine.strategies.planner.lowering.pipeline import program

        return program(self, cls, Choice())


def lower(graph: OpGraph, title: str = "module", *, attends: bool = True) -> Lowered:
    """The module as a pipeline. Element-wise work sees its tensors with their own axes, or, where it then could not be
    read by a product, or only as a copy, with all axes but the last as one.

    Raises SessionRefused("not_covered") for the first operation without a rule. `attends`: attention is one stage.
    """
    graph = turned(without_masks(without_gates(expanded(layered(graph)))))
    graph = attentions.spelled_out(attentions.recognised(graph)) if attends else graph
    graph = expanded(recognised(graph), spreads=True)
    try:
        lowered = _lower(graph, title)
    except SessionRefused as refused:
        try:
            return _lower(graph, title, flat=True)
        except SessionRefused:
            raise refused from None
    if any(isinstance(stage, Rearrangement) and stage.permute is None for stage in lowered.stages):
        with suppress(SessionRefused):
            return min(lowered, _lower(graph, title, flat=True), key=lambda way: len(way.stages))
    return lowered


def _lower(graph: OpGraph, title: str, flat: bool = False) -> Lowered:
    walk = LoweringContext(graph, flat)
    for op in graph.ops:
        walk.op = op
        several = slices if op.op in SLICES else recurrent if op.op == STAGE else None
        walk.values |= several(walk) if several else {op.outputs[0]: _value(walk)}
    walk.op = None
    results = [_result(walk, name) for name in graph.outputs]
    return _Finish(walk, results, title).run()


def _value(walk: LoweringContext) -> Value:
    op = walk.op
    if op.op in IDENTITIES:
        if op.attrs.get("train") or op.attrs.get("training"):
            raise walk.refuse("is active in training mode; call `.eval()` semantics are what is optimised here")
        # In another float type elements are rounded where they are stored; as a boolean one is what is not 0.
        own = walk.graph.tensors[op.inputs[0]].dtype
        known = walk.out().dtype == own or (own != MASK and walk.out().dtype in READABLE)
        return walk.arguments()[0] if known else _pointwise(walk)
    if op.op == attentions.STAGE:
        return attentions.attention(walk)
    if (rule := _rule(op)) is None:
        raise without_rule(op)
    if rule not in (view, _pointwise) and walk.out().dtype == MASK:
        raise walk.refuse(f"computes booleans, and a program {FLOATS}")
    if rule in (reduction, normalization, scan) and op.op != "batch_norm":
        _refuse_expanded(walk)
    return rule(walk)


def _rule(op: Op) -> Callable[[LoweringContext], Value] | None:
    rules = (
        (VIEWS, view), (PRODUCTS, product), (CONVOLUTIONS, convolution), (POOLS, pool),
        (NORMALIZATIONS, normalization), (pointwise.OPS, _pointwise), (REDUCTIONS, reduction),
        (CONCATENATIONS, concatenation), (SCANS, scan), (pointwise.CONSTANTS, lambda walk: pointwise.constant(walk.op)),
    )  # fmt: skip
    if op.op in ("max", "min") and len(op.inputs) == 2:  # of two tensors, element by element
        return _pointwise
    return view if still(op) else next((rule for names, rule in rules if op.op in names), None)


def has_rule(op: Op, graph: OpGraph) -> bool:
    """Return False for an operation of a graph that no program can hold."""
    joined = (vanishing, attentions.attended, attentions.spelled, turning, layers)
    if any(op.name in names(graph) for names in joined):
        return True
    if op.op in pointwise.CONSTANTS:  # a term of the operations that read it
        return any(has_rule(reader, graph) for name in op.outputs for reader in graph.readers.get(name, ()))
    return op.op in (*IDENTITIES, *COMPOSITES, *SLICES, *GATES) or _rule(op) is not None


def without_rule(op: Op) -> SessionRefused:
    """The refusal of an operation that has no rule."""
    return refuse(op, "is not covered yet", covered())


def _refuse_expanded(walk: LoweringContext) -> None:
    """Refuse an operation that adds up along an expanded axis: `expand` leaves the sizes to its reader, and a sum needs
    each element as often as it is repeated."""
    value, tensor = walk.arguments()[0], walk.graph.tensors[walk.op.inputs[0]]
    if not isinstance(value, float) and prod(value.shape) != tensor.elements:
        raise walk.refuse("of an expanded tensor is not covered yet")


def _pointwise(walk: LoweringContext) -> Value:
    op, shape = walk.op, walk.out().shape
    values = [walk.store(v) if isinstance(v, Result) and deep(v.expr) else v for v in walk.arguments()]
    values = roomy(walk, values, shape)
    target = walk.target(values, shape)
    terms = [walk.term(v, target) for v in values]
    draft = walk.drafts[target.stage]
    if op.op in ("triu", "tril") and not (isinstance(draft, Product) and shape[-2:] == draft.shape[-2:]):
        raise walk.refuse("of what is not a product is not covered yet")
    if walk.out().dtype not in (*READABLE, MASK):
        raise walk.refuse(f"computes in {walk.out().dtype}, and a program in {FLOATS}")
    if (expr := pointwise.apply(op, terms, walk.out().dtype == MASK)) is None:
        raise walk.refuse(f"with {pointwise.describe(op)} is not covered yet")
    return Result(target.stage, expr, shape)


def _result(walk: LoweringContext, name: str) -> str:
    """The reference of a tensor that the module returns, stored in the module's order and type."""
    value = walk.values.get(name)
    if isinstance(value, Leaf) and stage_of(value.source) is not None:
        value = walk.plain(value)
    elif isinstance(value, Result):
        value = walk.store(value)
    at = stage_of(value.source) if isinstance(value, Leaf) else None
    maker, dtype = walk.graph.producer.get(name), walk.graph.tensors[name].dtype
    if at is None:
        raise blamed(refuse(None, NOTHING_MADE, covered()), maker.name if maker else "")
    if isinstance(value, Leaf) and prod(value.shape) != walk.graph.tensors[name].elements:
        raise refuse(maker, "of an expanded tensor is not covered yet")
    if dtype not in READABLE:
        raise refuse(maker, f"makes {dtype} that is stored; a program stores {FLOATS}")
    walk.drafts[at].dtype = dtype
    return value.source


class _Finish:
    """Drops unread stages, numbers the rest, and names parameters and results."""

    def __init__(self, walk: LoweringContext, results: list[str], title: str):
        self.graph, self.drafts, self.results, self.title = walk.graph, walk.drafts, results, title
        self.reserved: set[str] = set(_RESERVED)
        self.keys: dict[tuple[str, tuple[int, ...]], str] = {}

    def run(self) -> Lowered:
        self.results = stored_by_norms(self.drafts, self.results, _move)
        needed = self._reachable()
        used = self._in_order({stage_of(r) for r in needed})
        moved: dict[str, str] = {}
        for new, old in enumerate(used):
            parts = sorted(part_of(r) for r in needed if stage_of(r) == old)
            moved |= {reference(old, part): reference(new, i) for i, part in enumerate(parts)}
            self.drafts[old].outs = [self.drafts[old].outs[part] for part in parts]
        stages = [self.drafts[old] for old in used]
        for stage in stages:
            _move(stage, moved)
            for source in stage.sources:
                self._parameter(source.of, source.shape)
        for name in (n for stage in stages for expr in stage.expressions for n in pointwise.names(expr)):
            self._parameter(*unkey(name))
        keys = dict(sorted(self.keys.items(), key=lambda item: self._rank(item[0][0])))
        params, inputs = [], []
        for (tensor, shape), name in keys.items():
            params.append(ir.Param(name, ir.TensorType(self._dtype(tensor), shape)))
            inputs.append(Binding(name, tensor, shape))
        names = [
            tuple(fresh("y" if i == len(stages) - 1 else f"h{i + 1}", self.reserved) for _ in stage.outs)
            for i, stage in enumerate(stages)
        ]
        results = [moved[r] for r in self.results]
        outputs = [
            Binding(names[stage_of(r)][part_of(r)], out, stages[stage_of(r)].shape_of(part_of(r)))
            for r, out in zip(results, self.graph.outputs, strict=True)
        ]
        name = fresh(self.title, set(_RESERVED))
        return Lowered(
            name, tuple(params), tuple(inputs), tuple(outputs), tuple(stages), tuple(names), tuple(results), keys
        )

    def _reachable(self) -> set[str]:
        seen: set[str] = set()
        todo = list(self.results)
        while todo:
            r = todo.pop()
            if r in seen:
                continue
            seen.add(r)
            stage = self.drafts[stage_of(r)]
            read = [s.of for s in stage.sources]
            # For a stage that stores several results, only those that are read count.
            of = (stage.of,) if isinstance(stage, OVER_ELEMENTS) else ()
            read += [unkey(n)[0] for e in (*of, stage.outs[part_of(r)]) for n in pointwise.names(e)]
            todo += [x for x in read if stage_of(x) is not None]
        return seen

    def _in_order(self, used: set[int]) -> list[int]:
        """The stages in the order of their drafts, but a copy that was drafted after its reader before it."""
        out: dict[int, None] = {}

        def add(at: int) -> None:
            before = {stage_of(r) for r in self.drafts[at].read()} & used
            for other in sorted(before - out.keys()):
                add(other)
            out[at] = None

        for at in sorted(used):
            if at not in out:
                add(at)
        return list(out)

    def _parameter(self, tensor: str, shape: tuple[int, ...]) -> None:
        if stage_of(tensor) is None and (tensor, shape) not in self.keys:
            t = self.graph.tensors[tensor]
            self.keys[(tensor, shape)] = fresh(t.path or t.name, self.reserved)

    def _dtype(self, tensor: str) -> DType:
        t = self.graph.tensors[tensor]
        try:
            return DType.I8 if t.dtype == MASK else DType(t.dtype)
        except ValueError:
            why = f"`{t.path or t.name}` has elements of {t.dtype}, which is not covered yet"
            readers = self.graph.readers.get(tensor, ())
            raise blamed(SessionRefused("not_covered", why), readers[0].name if readers else "") from None

    def _rank(self, tensor: str) -> tuple[int, int]:
        """Inputs first, in call order, then parameters and buffers in the module's order."""
        if tensor in self.graph.inputs:
            return (0, self.graph.inputs.index(tensor))
        return (1, list(self.graph.tensors).index(tensor))


def _move(stage: Draft, moved: dict[str, str]) -> None:
    """Rename the references that a draft reads."""

    def source(s: Source) -> Source:
        return replace(s, of=moved.get(s.of, s.of))

    def expr(e: Expr) -> Expr:
        to = {}
        for name in pointwise.names(e):
            tensor, shape = unkey(name)
            to[name] = key(moved.get(tensor, tensor), shape)
        return pointwise.rename(e, to)

    for field in ("a", "b", "x", "w", "q", "k", "v"):
        if isinstance(getattr(stage, field, None), Source):
            setattr(stage, field, source(getattr(stage, field)))
    for field in ("params", "parts"):
        if hasattr(stage, field):
            setattr(stage, field, tuple(source(s) for s in getattr(stage, field)))
    if isinstance(stage, OVER_ELEMENTS):
        stage.of = expr(stage.of)
    stage.outs = [expr(e) for e in stage.outs]


def fresh(preferred: str, used: set[str]) -> str:
    """An identifier near `preferred` that is not in `used`; adds it to `used`."""
    base = re.sub(r"\W+", "_", preferred.replace(".", "_"), flags=re.ASCII).strip("_").lower()[:48] or "t"
    if base[0].isdigit() or keyword.iskeyword(base):
        base = f"t_{base}"
    name, i = base, 2
    while name in used:
        name, i = f"{base}_{i}", i + 1
    used.add(name)
    return name
