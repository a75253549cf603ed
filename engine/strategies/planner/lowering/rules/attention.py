"""Attention as one stage: PyTorch's own, and the chain of product, scale, softmax and product that spells it out.

`recognised` replaces each by one operation on the tensors that its views show, so that heads are read where a
projection wrote them, and written where the next projection reads them. The kernel multiplies f16 and bf16: a module
in f32 has it in these classes, and in tf32 under a guard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

from dsl.check.stages.attention import STEP, WIDEST
from dsl.ir import ORDERS, Acc
from engine.strategies.planner.lowering.drafts import Attention, Leaf, Source, Value, reference
from engine.strategies.planner.lowering.lowering_context import LoweringContext
from engine.strategies.planner.lowering.rules.strided import COPIES, RESHAPES, Strided, row_major, strided
from engine.strategies.planner.lowering.rules.views import SWAPS, permutation
from sol.cost.attention import chains
from sol.graph import Op, OpGraph, Tensor

SDPA = "scaled_dot_product_attention"
STAGE = "_attention"  # the operation that stands for one in a recognised graph
_MATMULS = ("matmul", "bmm")
_FLOATS = ("f16", "bf16", "f32")


Side = tuple[Strided, ...]


@dataclass(frozen=True)
class Attended:
    """One attention of a graph. `q`, `k`, `v`: [b, heads, positions, size], each as views of the tensors that it may be
    read from; `of`: the operations that it replaces, the last of which makes the result."""

    of: tuple[Op, ...]
    q: Side
    k: Side
    v: Side
    scale: float
    causal: bool

    @property
    def out(self) -> Op:
        return self.of[-1]

    @property
    def sides(self) -> tuple[Side, Side, Side]:
        return self.q, self.k, self.v


def attentions(graph: OpGraph) -> dict[str, Attended]:
    """The attentions that one stage computes, by the name of the operation with the result. Found once a graph."""
    if "attentions" not in graph.cache:
        tries = [_pytorchs(graph, op) for op in graph.live if op.op == SDPA]
        if any(t.dtype in _FLOATS for t in graph.tensors.values()):
            tries += [_written_out(graph, chain) for chain in chains(graph)]
        graph.cache["attentions"] = {a.out.name: a for a in tries if a is not None and _covered(graph, a)}
    return graph.cache["attentions"]


def attended(graph: OpGraph) -> frozenset[str]:
    """The names of the operations that these attentions replace, and of those that only show heads to one."""
    if "attended" not in graph.cache:
        names = {op.name for a in attentions(graph).values() for op in a.of}
        if names:
            names |= {op.name for op in graph.live} - {op.name for op in recognised(graph).ops}
        graph.cache["attended"] = frozenset(names)
    return graph.cache["attended"]


def _pytorchs(graph: OpGraph, op: Op) -> Attended | None:
    if len(op.inputs) != 3 + op.causal or op.attrs.get("dropout_p"):  # the fourth is a mask
        return None
    sides = _sides(graph, op.inputs[:3], op.attrs.get("scale"), op.causal or bool(op.attrs.get("is_causal")))
    return sides and replace(sides, of=(op,))


def _written_out(graph: OpGraph, chain: Any) -> Attended | None:
    """A chain whose scores are only multiplied by numbers, and masked, if at all, above the diagonal."""
    first, scale, causal = chain.ops[0], 1.0, False
    if any(op.op not in _MATMULS for op in (first, chain.out)):  # an einsum has its own order of axes
        return None
    for op in chain.ops[1:-1]:
        drops = op.op == "dropout" and (op.attrs.get("train") or op.attrs.get("training"))
        if op is chain.softmax or (op.op in ("to", "_to_copy", "dropout", *COPIES) and not drops):
            continue
        factor = _factor(op)
        if factor is not None:
            scale *= factor
        elif op.causal:
            causal = True
        else:
            return None
    if len(first.inputs) != 2 or chain.out.inputs[0] not in _results(chain.ops[:-1]) or len(chain.out.inputs) != 2:
        return None
    q, keys = first.inputs
    sides = _sides(graph, (q, keys, chain.out.inputs[1]), scale, causal, turned=True)
    return sides and replace(sides, of=chain.ops)


def _results(ops: tuple[Op, ...]) -> set[str]:
    return {name for op in ops for name in op.outputs}


def _factor(op: Op) -> float | None:
    """c of a multiplication by the number c, or of a division by 1 / c."""
    number = op.attrs.get("other")
    if len(op.inputs) != 1 or op.op not in ("mul", "div") or not isinstance(number, int | float) or not number:
        return None
    return float(number) if op.op == "mul" else None if op.attrs.get("rounding_mode") else 1 / float(number)


def _sides(graph: OpGraph, names: tuple[str, ...], scale: Any, causal: bool, turned: bool = False) -> Attended | None:
    """`turned`: the keys are seen as a product's right side, [b, heads, size, positions]."""
    if len({graph.tensors[n].dtype for n in names}) != 1:
        return None
    q, by = _scaled(graph, names[0])
    seen = [strided(graph, q), *(strided(graph, n) if turned else _ungrouped(graph, n) for n in names[1:])]
    rank = len(seen[0][0].shape)
    if {len(s[0].shape) for s in seen} != {rank} or rank not in (3, 4):
        return None
    if turned:
        seen[1] = tuple(s.moved([*range(rank - 2), rank - 1, rank - 2]) for s in seen[1])
    if rank == 3:  # batches and heads are one axis
        seen = [tuple(s.reshaped((s.shape[0], 1, *s.shape[1:])) for s in side) for side in seen]
    scale = 1 / sqrt(seen[0][0].shape[-1]) if scale is None else float(scale)
    return Attended((), *seen, scale=scale * by, causal=causal)


def _scaled(graph: OpGraph, name: str) -> tuple[str, float]:
    """The queries before a multiplication by a number that nothing else reads, and the number."""
    op = graph.producer.get(name)
    if op is None or len(graph.readers.get(name, ())) != 1 or name in graph.outputs:
        return name, 1.0
    factor = _factor(op)
    return (name, 1.0) if factor is None else (op.inputs[0], factor)


def _ungrouped(graph: OpGraph, name: str) -> Side:
    """Keys or values before each head was repeated for a group of queries."""
    whole, shape = strided(graph, name), graph.tensors[name].shape
    if len(shape) != 4:
        return whole
    b, h, n, d = shape
    op = _before(graph, name, "repeat_interleave")
    if op is not None and len(op.inputs) == 1 and op.attrs.get("dim") in (1, -3):
        return strided(graph, op.inputs[0])
    wide = _before(graph, name, "expand")
    narrow = graph.tensors[wide.inputs[0]].shape if wide is not None else ()
    if len(narrow) != 5 or (narrow[0], narrow[2:]) != (b, (1, n, d)) or h % narrow[1]:
        return whole
    if graph.tensors[wide.outputs[0]].shape != (b, narrow[1], h // narrow[1], n, d):
        return whole
    seen = (s.reshaped((b, narrow[1], n, d)) for s in strided(graph, wide.inputs[0]))
    return tuple(s for s in seen if s is not None) or whole


def _before(graph: OpGraph, name: str, kind: str) -> Op | None:
    """The operation `kind` whose result a tensor is, copied or in another shape."""
    op = graph.producer.get(name)
    while op is not None and op.op in (*COPIES, *RESHAPES):
        op = graph.producer.get(op.inputs[0])
    return op if op is not None and op.op == kind else None


def _covered(graph: OpGraph, a: Attended) -> bool:
    """Return True if the stage takes these shapes."""
    (b, h, m, d), (bk, g, n, dk), (bv, gv, nv, e) = (side[0].shape for side in a.sides)
    out = graph.tensors[a.out.outputs[0]]
    if out.dtype not in _FLOATS or any(graph.tensors[side[0].root].dtype != out.dtype for side in a.sides):
        return False
    if (b, d, b, g, n) != (bk, dk, bv, gv, nv) or h % g or out.elements != b * h * m * e:
        return False
    return not (d % STEP or e % STEP or max(d, e) > WIDEST or (a.causal and m != n) or 0 in (b, h, m, n))


# ---- the graph with one operation each ------------------------------------------------------------------------------


def recognised(graph: OpGraph) -> OpGraph:
    """The graph with each attention as one operation `_attention`; what only it read is gone."""
    every = attentions(graph)
    if not every:
        return graph
    tensors, ops, done = dict(graph.tensors), [], set()
    for op in graph.ops:
        a = every.get(op.name)
        if op.name in done:
            continue
        if a is None:
            ops.append(op)
            continue
        written, after = _one(graph, a, tensors)
        ops += written
        done |= {after.name} if after is not None else set()
    whole = replace(graph, tensors=tensors, ops=tuple(ops))
    return replace(whole, ops=whole.live)


def _one(graph: OpGraph, a: Attended, tensors: dict[str, Tensor]) -> tuple[list[Op], Op | None]:
    """The operations in place of an attention, all under its name, by which the rules blame an operation; and the
    permutation after it that they include."""
    out = a.out.outputs[0]
    (b, h, m, _), (_, _, _, e), dtype = a.q[0].shape, a.v[0].shape, tensors[out].dtype
    after, moved = _moved(graph, out) if tensors[out].shape == (b, h, m, e) else (None, "bhmd")
    order, heads, few = _order(graph, a, moved)
    ops: list[Op] = []

    def add(name: str, kind: str, read: tuple[str, ...], shape: tuple[int, ...], **attrs: Any) -> str:
        tensors[name] = Tensor(name, shape, dtype, "intermediate")
        ops.append(replace(a.out, op=kind, inputs=read, outputs=(name,), attrs=attrs))
        return name

    read = []
    for letter, side, count in zip("qkv", a.sides, few, strict=False):
        if count is None:
            read.append(_side(graph, side, order, f"{out}__{letter}", add))
        else:
            shape = _ordered(order, (b, count, *side[0].shape[2:]))
            read.append(add(f"{out}__{letter}", "view", (side[0].root,), shape, size=list(shape)))
    attrs = {"order": order, "heads": heads, "scale": a.scale, "causal": a.causal}
    attrs["in_f32"] = dtype == "f32" and a.out.op == SDPA
    result = _ordered(order, (b, h, m, e))
    if after is not None and moved == order:
        add(after.outputs[0], STAGE, tuple(read), result, **attrs)
        tensors[after.outputs[0]] = graph.tensors[after.outputs[0]]
        return ops, after
    if order == "bhmd" and tensors[out].shape == result:
        ops.append(replace(a.out, op=STAGE, inputs=tuple(read), attrs=attrs))
        return ops, None
    stored = add(f"{out}__stored", STAGE, tuple(read), result, **attrs)
    dims = [ORDERS[order].index(axis) for axis in range(4)]
    name = stored if order == "bhmd" else add(f"{out}__moved", "permute", (stored,), (b, h, m, e), dims=dims)
    ops.append(replace(a.out, op="view", inputs=(name,), attrs={"size": list(graph.tensors[out].shape)}))
    return ops, None


def _ordered(order: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in ORDERS[order])


def _moved(graph: OpGraph, name: str) -> tuple[Op | None, str]:
    """The permutation into another order that alone reads a result, and the order."""
    readers = graph.readers.get(name, ())
    if len(readers) != 1 or name in graph.outputs or readers[0].op not in SWAPS:
        return None, "bhmd"
    dims = tuple(permutation(readers[0], 4))
    order = next((order for order, axes in ORDERS.items() if axes == dims), None)
    return (None, "bhmd") if order is None else (readers[0], order)


def _order(graph: OpGraph, a: Attended, moved: str) -> tuple[str, tuple[int, int] | None, tuple[int | None, ...]]:
    """The order of axes in which most elements are read and written as they lie; with the heads of q, and of k and v,
    if one tensor has all; and the heads of each operand that has those of several, else None."""
    (b, h, m, d), (_, g, n, e) = a.q[0].shape, a.v[0].shape
    votes = dict.fromkeys(ORDERS, 0)
    votes[moved] += b * h * m * e
    for order in ORDERS:
        if d == e and m == n and _together(graph, a.sides, order, (0, h, h + g), h + 2 * g):
            return order, (h, g), (h + 2 * g,)
        if d == e and _together(graph, a.sides[1:], order, (0, g), 2 * g):
            votes[order] += 2 * b * g * n * d
        for side in a.sides:
            votes[order] += prod(side[0].shape) * (_own(graph, side, order) is not None)
    order = max(ORDERS, key=lambda order: votes[order])
    pair = d == e and _together(graph, a.sides[1:], order, (0, g), 2 * g)
    return order, None, (None, 2 * g) if pair else (None,) * 3


def _together(graph: OpGraph, sides: tuple[Side, ...], order: str, heads: tuple[int, ...], count: int) -> bool:
    """Return True if sides are the heads of one tensor, from these on, of `count` in all."""
    first = [side[0] for side in sides]
    b, _, n, d = first[0].shape
    strides = row_major(_ordered(order, (b, count, n, d)))
    strides = tuple(strides[ORDERS[order].index(axis)] for axis in range(4))
    whole = {s.root for s in first} == {first[0].root} and graph.tensors[first[0].root].elements == b * count * n * d
    places = zip(first, heads, strict=True)
    return whole and all(s.lies((b, s.shape[1], n, d), strides, at * strides[1]) for s, at in places)


def _own(graph: OpGraph, side: Side, order: str) -> Strided | None:
    """The tensor that is, whole, a side of attention in this order of axes, and not a copy of such a one."""
    for s in side:
        if graph.tensors[s.root].elements == prod(s.shape) and s.order is not None:
            return s if s.moved(ORDERS[order]).plain else None
    return None


def _side(graph: OpGraph, side: Side, order: str, name: str, add: Any) -> str:
    """The operations that give a side in this order: a view of the earliest tensor that has its elements and no more,
    perhaps with its axes in another order."""
    shape = _ordered(order, side[0].shape)
    s = next(s for s in side if graph.tensors[s.root].elements == prod(s.shape) and s.order is not None)
    if _own(graph, side, order) is not None:
        return add(name, "view", (s.root,), shape, size=list(shape))
    lies = tuple(s.shape[i] for i in s.order)
    dims = [s.order.index(axis) for axis in ORDERS[order]]
    return add(name, "permute", (add(f"{name}_lies", "view", (s.root,), lies, size=list(lies)),), shape, dims=dims)


# ---- attention that no stage computes --------------------------------------------------------------------------------


def spelled(graph: OpGraph) -> frozenset[str]:
    """The names of PyTorch's own attentions whose heads are too wide for a stage, which are two products around a
    softmax. PyTorch has no fast kernel for them either; of narrower ones, as with a mask, it keeps the scores on the
    chip."""
    if "spelled" not in graph.cache:
        rest = (op for op in graph.live if op.op == SDPA and op.name not in attentions(graph))
        graph.cache["spelled"] = frozenset(op.name for op in rest if _in_products(graph, op))
    return graph.cache["spelled"]


def _in_products(graph: OpGraph, op: Op) -> bool:
    q, k, v, *masks = (graph.tensors[name] for name in op.inputs)
    plain = not (op.causal or op.attrs.get("is_causal") or op.attrs.get("dropout_p")) and len(masks) < 2
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and len({q.dtype, k.dtype, v.dtype}) == 1
    # The batches and heads of a product are one axis: a mask has one of its own for each of them, or for none.
    whole = all(set(m.shape[:-2]) <= {1} or m.shape[:-2] == q.shape[:-2] for m in masks)
    wide = max(q.shape[-1], v.shape[-1]) > WIDEST and len(q.shape) > 2
    return plain and alike and whole and wide and {q.dtype, *(m.dtype for m in masks)} <= set(_FLOATS)


def spelled_out(graph: OpGraph) -> OpGraph:
    """The graph with each of these attentions as the operations that it is made of, all under its name."""
    names = spelled(graph)
    if not names:
        return graph
    tensors, ops = dict(graph.tensors), []
    for op in graph.ops:
        if op.name not in names:
            ops.append(op)
            continue
        q, k, v, *masks = op.inputs
        (*lead, m, d), n, own = tensors[q].shape, tensors[k].shape[-2], tensors[op.outputs[0]]

        def add(kind: str, *read: str, to: tuple[int, ...], op: Op = op, own: Tensor = own, **attrs: Any) -> str:
            name = f"{own.name}__{len(ops)}"
            tensors[name] = Tensor(name, to, own.dtype, "intermediate")
            ops.append(replace(op, op=kind, inputs=read, outputs=(name,), attrs=attrs))
            return name

        scale, shape = op.attrs.get("scale"), (*lead, m, n)
        scores = add("matmul", q, add("transpose", k, to=(*lead, d, n), dim0=-2, dim1=-1), to=shape)
        scores = add("mul", scores, to=shape, other=1 / sqrt(d) if scale is None else float(scale))
        for mask in masks:
            scores = add("add", scores, mask, to=shape, alpha=1)
        shares = add("softmax", scores, to=shape, dim=-1, dtype=None)
        ops.append(replace(op, op="matmul", inputs=(shares, v), attrs={}))
    return replace(graph, tensors=tensors, ops=tuple(ops))


# ---- the rule -------------------------------------------------------------------------------------------------------


def attention(walk: LoweringContext) -> Value:
    """The stage of an operation `_attention`. Its result is stored: no expression joins it."""
    op, values = walk.op, walk.arguments()
    sides = [_read(walk, value, walk.graph.tensors[name].shape) for name, value in zip(op.inputs, values, strict=True)]
    q, k, v = (*sides, None, None)[:3]
    at = op.attrs
    shape = walk.out().shape
    draft = Attention(
        shape, walk.out().dtype, [Acc()], q=q, k=k, v=v, order=at["order"], heads=at["heads"], scale=at["scale"],
        causal=at["causal"], in_f32=at["in_f32"],
    )  # fmt: skip
    walk.drafts.append(draft)
    return Leaf.whole(reference(len(walk.drafts) - 1), shape)


def _read(walk: LoweringContext, value: Value, shape: tuple[int, ...]) -> Source:
    return walk.see(walk.leaf(value), shape)


__all__ = ["SDPA", "STAGE", "Attended", "attended", "attention", "attentions", "recognised", "spelled",
           "spelled_out"]  # fmt: skip
