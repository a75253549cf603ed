"""recurrent: the shapes of gates, weights and states, its clauses, and whether a cluster holds the weights."""

from __future__ import annotations

from dataclasses import replace

from dsl.arch import DEFAULT, FLOATS
from dsl.check.context import Clauses, Context, Typed, dims, spans
from dsl.check.space import shape_text
from dsl.diagnostics import listing
from dsl.fixes import Help, SetArch, help_of, leave_clause, or_else, transform_first, write_clause
from dsl.ir import CELLS, NCHW, Acc, Also, DType, Recurrent, TensorType
from dsl.rules.recurrent import layout as rules
from dsl.tree import RefNode, StageNode

RECURRENT_CLAUSES = ("op", "order", "layer", "compute", "cluster", "also", "store")
MOST = 8  # operands: gates, weights and biases of two directions, and both states
RANKS = ((3, "gates"), (2, "weights"), (1, "biases"), (3, "states"))
SHAPES = "gates [t, b, g * h], weight_hh [g * h, h], bias_hh [g * h] and states [layers * directions, b, h]"


def recurrent(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Recurrent:
    """The typed stage; `type` is None after an error."""
    op = ctx.word(clauses, "op", tuple(CELLS))
    if op is None and "op" not in clauses:
        ctx.error("E120", "recurrent needs its op", node.span, write_clause("op", "lstm"))
    order = ctx.word(clauses, "order", ("tb", "bt")) or "tb"
    compute = ctx.word(clauses, "compute", tuple(c.value for c in rules.COMPUTE), "E202")
    store, _, ok = ctx.store(clauses, None)
    parts = _parts(ctx, node, operands)
    every = parts or ([], [], [], [])
    stage = Recurrent(
        node.name.text, *(tuple(o for o, _ in part) for part in every), op=op or "lstm", order=order,
        layer=_layer(ctx, clauses), compute=compute and DType(compute), store=store, span=node.span,
        clauses=spans(node), cluster=_cluster(ctx, clauses),
    )  # fmt: skip
    if ctx.arch is not None and ctx.arch.name != DEFAULT:
        message = f"recurrent is written for {DEFAULT} alone, not for {ctx.arch.name}"
        ctx.error("E201", message, node.span, help_of(f"arch {DEFAULT}", SetArch(DEFAULT)))
    if store is not None and store not in FLOATS:
        message = f"recurrent stores {listing([t.value for t in FLOATS])}, not {store.value}"
        ctx.error("E123", message, clauses["store"].span, write_clause("store", "f32"))
        ok = False
    result = None
    if parts is not None and op is not None and ok:
        result = _result(ctx, node, stage, parts)
    if result is not None and not _computed(ctx, node, stage, operands):
        result = None
    return replace(stage, type=result, also=_also(ctx, node, stage, result))


def _parts(ctx: Context, node: StageNode, operands: list[Typed]) -> tuple[list[Typed], ...] | None:
    """The operands as (gates, weights, biases, states), by rank; None, with the error reported."""
    if any(t is None for _, t in operands):
        return None
    for o, t in operands:
        help: Help | str | None = None
        if o.transposed:
            message, code = f"recurrent reads {o.name} as it is, without .T", "E104"
        elif t.dtype not in FLOATS:
            code, message = "E123", f"recurrent reads {listing([x.value for x in FLOATS])}; {o.name} is {t}"
            help = transform_first(o.name, ("to", "f32"))
        elif t.layout != NCHW:
            code, message = "E115", f"recurrent reads row-major operands; {o.name} is {t}"
            help = transform_first(o.name, ("layout", NCHW))
        else:
            continue
        ctx.error(code, message, o.span, help or SHAPES)
        return None
    parts: tuple[list[Typed], ...] = ([], [], [], [])
    at = 0
    for o, t in operands:
        while at < 4 and RANKS[at][0] != len(t.shape):
            at += 1
        if at == 4:
            message = f"{o.name} is {t}, out of the order of gates, weights, biases and states"
            ctx.error("E104", message, o.span, SHAPES)
            return None
        parts[at].append((o, t))
    gates, weights, biases, _ = parts
    counts = len(gates), len(weights), len(biases)
    if counts[:2] not in ((1, 1), (2, 2)) or counts[2] not in (0, counts[0]):
        message = "each direction has gates, weights and, if any, a bias; here are {}, {} and {}".format(*counts)
        ctx.error("E104", message, node.span, SHAPES)
        return None
    return parts


def _result(ctx: Context, node: StageNode, stage: Recurrent, parts: tuple[list[Typed], ...]) -> TensorType | None:
    """The type of the sequence; None, with the error reported, if the shapes do not fit each other."""
    gates, weights, biases, states = parts
    first, per = gates[0], CELLS[stage.op]
    width = first[1].shape[2]
    hidden = width // per
    steps, batch = first[1].shape[:2] if stage.order == "tb" else first[1].shape[1::-1]
    if width % per:
        message = f"{stage.op} has {per} gates a unit; {first[0].name} has {width:,} columns"
        ctx.error("E105", message, first[0].span, f"a multiple of {per}")
        return None
    if (stage.op == "lstm" and len(states) == 1) or len(states) > (2 if stage.op == "lstm" else 1):
        few = "h_0 and c_0" if stage.op == "lstm" else "h_0"
        message = f"{stage.op} begins with {few}, or with zeros; here are {len(states)} states"
        ctx.error("E104", message, states[-1][0].span, "leave them out for zeros")
        return None
    for o, t in gates[1:]:
        if t != first[1]:
            ctx.error("E105", f"both directions' gates are alike; {first[0].name} is {first[1]}, {o.name} {t}", o.span)
            return None
    expected = [*((w, (width, hidden)) for w in weights), *((b, (width,)) for b in biases)]
    for (o, t), shape in expected:
        if t.shape != shape:
            message = f"{o.name} is {shape_text(t.shape)}; gates of {width:,} columns need {shape_text(shape)}"
            ctx.error("E103", message, o.span, f"{stage.op}: {SHAPES}")
            return None
    if len({t.dtype for _, t in weights}) > 1:
        (o, t), (other, kind) = weights
        message = f"{o.name} is {t.dtype.value} and {other.name} {kind.dtype.value}; weights are of one type"
        ctx.error("E107", message, other.span, transform_first(other.name, ("to", t.dtype.value)))
        return None
    least = (stage.layer + 1) * stage.directions
    for o, t in states:
        if t.shape[1:] != (batch, hidden) or t.shape[0] < least:
            message = f"{o.name} is {shape_text(t.shape)}; layer {stage.layer} needs [{least:,} or more, {batch:,}, "
            ctx.error("E105", f"{message}{hidden:,}]", o.span, f"order {stage.order}: {SHAPES}")
            return None
    lead = (steps, batch) if stage.order == "tb" else (batch, steps)
    return TensorType(stage.store or first[1].dtype, (*lead, stage.directions * hidden))


def _computed(ctx: Context, node: StageNode, stage: Recurrent, operands: list[Typed]) -> bool:
    """Report the precisions that the weights do not have, and weights that no cluster holds."""
    types = {o.name: t for o, t in operands}
    kind = types[stage.weights[0].name].dtype
    legal = rules.COMPUTE if kind is DType.F32 else (kind,)
    compute = rules.compute_of(stage, types)
    if compute not in legal:
        message = f"weights of {kind.value} are multiplied in {listing([x.value for x in legal])}, not {compute.value}"
        ctx.error("E202", message, stage.clause_span("compute"), write_clause("compute", legal[0].value))
        return False
    if rules.layout_of(stage, types) is not None:
        return True
    gates, hidden = types[stage.gates[0].name], types[stage.weights[0].name].shape[1]
    batch = gates.shape[1] if stage.order == "tb" else gates.shape[0]
    most = {c: rules.most_hidden(stage.op, batch, stage.directions, c) for c in legal}
    if stage.cluster is not None and most[compute] >= hidden:
        message = (
            f"{stage.cluster} blocks do not hold weight_hh of {hidden:,} units in {compute.value}, or some have none"
        )
        ctx.error("E204", message, stage.clause_span("cluster"), leave_clause("cluster"))
        return False
    message = f"no cluster of 16 blocks holds weight_hh of {hidden:,} units in {compute.value}"
    narrower = [write_clause("compute", c.value) for c in legal if most[c] >= hidden]
    help = or_else(*narrower) or f"at most {most[compute]:,} units of an {stage.op}"
    ctx.error("E204", message, stage.clause_span("compute"), help)
    return False


def _cluster(ctx: Context, clauses: Clauses) -> int | None:
    """The blocks of `cluster 8x1x1`; None if it is absent, auto or wrong."""
    sizes = ctx.sizes(clauses, "cluster", 3, 1, "recurrent")
    if sizes is None:
        return None
    if sizes[0] not in rules.CLUSTERS or sizes[1:] != (1, 1):
        message = f"cluster {dims(sizes)}; a recurrent stage has {listing(map(str, rules.CLUSTERS))} blocks along M"
        ctx.error("E206", message, clauses["cluster"].span, write_clause("cluster", "8x1x1"))
        return None
    return sizes[0]


def _layer(ctx: Context, clauses: Clauses) -> int:
    """The number of `layer`, from 0."""
    c = clauses.get("layer")
    if c is None or getattr(c.value, "text", None) == "auto":
        return 0
    if hasattr(c.value, "text"):
        ctx.error("E112", f"`{c.value.text}` is not a value of layer", c.span, write_clause("layer", "0"))
        return 0
    return c.value[0]


def _also(ctx: Context, node: StageNode, stage: Recurrent, result: TensorType | None) -> tuple[Also, ...]:
    """The last states that are stored: `acc` the hidden one, `acc2` the cell of an lstm."""
    words = ("acc", "acc2") if stage.op == "lstm" else ("acc",)
    extras = []
    for c in node.clauses:
        if c.keyword.text != "also":
            continue
        e, name = c.value.expr, c.value.name
        word = e.name.text if isinstance(e, RefNode) and not e.axes else None
        if word not in words:
            what = "acc, the last hidden state, or acc2, the last cell state" if len(words) == 2 else "acc alone"
            ctx.error("E120", f"also of {stage.op} stores {what}", e.span, f"also {name.text} = acc")
            continue
        kind = None
        if result is not None:
            batch = result.shape[1] if stage.order == "tb" else result.shape[0]
            kind = TensorType(result.dtype, (stage.directions, batch, result.shape[2] // stage.directions))
        extras.append(Also(name.text, Acc(second=word == "acc2"), kind, name.span))
    if len({a.expr.second for a in extras}) < len(extras):
        ctx.error("E102", "each last state is stored once", extras[-1].span, leave_clause("also"))
    return tuple(extras)


__all__ = ["MOST", "RECURRENT_CLAUSES", "recurrent"]
