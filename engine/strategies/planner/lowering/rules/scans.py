"""Running sums and products, also from the last element to the first, which modules write with two flips, and without
the element itself, which they write by joining zeros and the sums of all elements but the last."""

from __future__ import annotations

from dataclasses import replace

from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.drafts import Scanning, Value
from engine.strategies.planner.lowering.lowering_context import READABLE, LoweringContext
from engine.strategies.planner.lowering.rules.concatenation import CONCATENATIONS
from engine.strategies.planner.lowering.rules.nonproduct import along_one
from sol.graph import Op, OpGraph

SCANS = {"cumsum": "sum", "cumprod": "prod"}


def scan(walk: LoweringContext) -> Value:
    op, out, value = walk.op, walk.out(), walk.arguments()[0]
    if out.dtype not in READABLE or op.attrs.get("dtype") not in (None, walk.graph.tensors[op.inputs[0]].dtype):
        raise walk.refuse("of or into another element type is not covered yet")
    dim = int(op.attrs["dim"]) % max(1, len(value.shape))
    if not value.shape or value.shape[dim] == 1:
        return value
    shape, over = along_one(walk, value, dim)
    leaf, of = walk.carried(value, shape)
    draft = Scanning(
        shape, out.dtype, x=walk.see(leaf, shape), op=SCANS[op.op], over=over, of=of,
        reverse=bool(op.attrs.get("reverse")),
    )  # fmt: skip
    return walk.add(draft, out.shape)


def turning(graph: OpGraph) -> dict[str, Op]:
    """The flips around scans, by name -> the scan. The first of two is read by the scan alone, which the second alone
    reads, and all have one axis."""
    if "turning" not in graph.cache:
        flips: dict[str, Op] = {}
        for op in graph.ops:
            if op.op in SCANS:
                before, after = graph.producer.get(op.inputs[0]), graph.readers.get(op.outputs[0], ())
                alone = len(graph.readers.get(op.inputs[0], ())) == 1 == len(after)
                inner = op.outputs[0] not in graph.outputs and op.inputs[0] not in graph.outputs
                if before is not None and alone and inner and _flips(graph, before, op) and _flips(graph, after[0], op):
                    flips |= {before.name: op, after[0].name: op}
        graph.cache["turning"] = flips
    return graph.cache["turning"]


def _flips(graph: OpGraph, op: Op, scan: Op) -> bool:
    rank = len(graph.tensors[scan.outputs[0]].shape)
    dims = op.attrs.get("dims") if op.op == "flip" else None
    return dims is not None and [d % rank for d in dims] == [scan.attrs["dim"] % rank]


def without_itself(graph: OpGraph) -> OpGraph:
    """The graph with zeros joined with the running sums of x but its last element as those of x, less x."""
    ops, tensors = list(graph.ops), dict(graph.tensors)
    for at, op in enumerate(graph.ops):  # several operations may have one name
        scan = graph.producer.get(op.inputs[-1]) if op.op in CONCATENATIONS and len(op.inputs) == 2 else None
        x = None if scan is None else _all_of(graph, op, scan)
        if x is not None:
            (sums,) = scan.outputs
            ops[graph.ops.index(scan)] = replace(scan, inputs=(x,))
            ops[at] = replace(op, op="sub", inputs=(sums, x), attrs={"alpha": 1})
            tensors[sums] = replace(tensors[op.outputs[0]], name=sums, kind="intermediate")
    if ops == list(graph.ops):
        return graph
    whole = replace(graph, tensors=tensors, ops=tuple(ops))
    return replace(whole, ops=whole.live)


def _all_of(graph: OpGraph, joined: Op, scan: Op) -> str | None:
    """x, if `joined` puts one zero before the running sums of all of x but its last element."""
    first, cut = graph.producer.get(joined.inputs[0]), graph.producer.get(scan.inputs[0])
    if scan.op != "cumsum" or first is None or cut is None or pointwise.CONSTANTS.get(first.op) != 0.0:
        return None
    out, x = graph.tensors[joined.outputs[0]], graph.tensors[cut.inputs[0]]
    axis = int(joined.attrs.get("dim", 0)) % len(out.shape)
    one, rest = graph.tensors[first.outputs[0]].shape[axis], graph.tensors[cut.outputs[0]].shape
    same = x.shape == out.shape and x.dtype == out.dtype and scan.attrs["dim"] % len(out.shape) == axis
    alone = len(graph.readers.get(scan.outputs[0], ())) == 1 and scan.outputs[0] not in graph.outputs
    begins = cut.op in ("slice", "narrow") and not cut.attrs.get("start") and cut.attrs.get("step") in (None, 1)
    along = begins and int(cut.attrs.get("dim", 0)) % len(out.shape) == axis
    return x.name if same and alone and along and one == 1 and rest[axis] == out.shape[axis] - 1 else None


def turned(graph: OpGraph) -> OpGraph:
    """The graph with flip, scan, flip as one scan with the attribute `reverse`, and with sums without the element."""
    graph = without_itself(graph)
    around = turning(graph)
    if not around:
        return graph
    scans = {op.outputs[0] for op in around.values()}
    ops: list[Op] = []
    for op in graph.ops:
        if op.outputs[0] in scans:
            before, after = graph.producer[op.inputs[0]], graph.readers[op.outputs[0]][0]
            attrs = {**op.attrs, "reverse": True}
            ops.append(replace(op, inputs=before.inputs, outputs=after.outputs, attrs=attrs))
        elif op.op != "flip" or op.name not in around:
            ops.append(op)
    return replace(graph, ops=tuple(ops))


__all__ = ["SCANS", "scan", "turned", "turning", "without_itself"]
