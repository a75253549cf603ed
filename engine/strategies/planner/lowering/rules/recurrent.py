"""nn.LSTM, nn.GRU and nn.RNN: for each layer a product of all steps a direction, then its steps as one stage.

`layered` replaces a network by these operations. weight_ih and bias_ih belong to the product, weight_hh and bias_hh to
the stage; states that PyTorch fills with zeros are left out. The last states of several layers are joined after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dsl.ir import CELLS, STATES, DType, Number
from dsl.rules.recurrent.layout import fit
from engine.strategies.planner.lowering.drafts import Draft, Leaf, Source, Value, reference
from engine.strategies.planner.lowering.lowering_context import LoweringContext
from sol.graph import Op, OpGraph, Tensor

STAGE = "_recurrent"  # the operation that stands for the steps of one layer
NETWORKS = tuple(CELLS)  # as ATen calls them
_ZEROS = ("zeros", "zeros_like", "new_zeros")
_FLOATS = ("f32", "f16", "bf16")


@dataclass
class Recurrent(Draft):
    """dsl.ir.Recurrent. `parts`: its operands in their order. `outs` says by numbers what is stored: 0 the sequence, 1
    the last hidden state, 2 the last cell state."""

    parts: tuple[Source, ...] = ()
    op: str = "lstm"
    order: str = "tb"
    layer: int = 0
    directions: int = 1
    biased: bool = False

    def shape_of(self, part: int) -> tuple[int, ...]:
        if self.outs[part] == Number(0.0):
            return self.shape
        batch = self.shape[1] if self.order == "tb" else self.shape[0]
        return (self.directions, batch, self.shape[2] // self.directions)

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.parts


@dataclass(frozen=True)
class Network:
    """One network of a graph: its input [t, b, i] or [b, t, i], its states (none: zeros), and of each layer and
    direction (weight_ih, weight_hh, and bias_ih and bias_hh or none)."""

    op: Op
    x: str
    states: tuple[str, ...]
    sides: tuple[tuple[tuple[str, ...], ...], ...]  # by layer, then by direction
    hidden: int

    @property
    def order(self) -> str:
        return "bt" if self.op.attrs.get("batch_first") else "tb"


def networks(graph: OpGraph) -> dict[str, Network | str]:
    """Operation -> the network that stages compute, or why they do not. Computed once for each graph."""
    if "networks" not in graph.cache:
        graph.cache["networks"] = {op.name: _network(graph, op) for op in graph.live if op.op in NETWORKS}
    return graph.cache["networks"]


def layers(graph: OpGraph) -> frozenset[str]:
    """The names of the operations that `layered` replaces."""
    return frozenset(name for name, network in networks(graph).items() if isinstance(network, Network))


def refusals(graph: OpGraph) -> dict[str, str]:
    """Operation -> why it stays PyTorch."""
    return {name: why for name, why in networks(graph).items() if isinstance(why, str)}


def _network(graph: OpGraph, op: Op) -> Network | str:
    at, count = op.attrs, STATES[op.op]
    if "num_layers" not in at or "batch_first" not in at:
        return "of packed sequences is not covered yet"
    depth, directions = int(at["num_layers"]), 2 if at.get("bidirectional") else 1
    each = 4 if at.get("has_biases") else 2
    x, hx, params = op.inputs[0], op.inputs[1 : 1 + count], op.inputs[1 + count :]
    shape = graph.tensors[x].shape
    if at.get("train") and at.get("dropout") and depth > 1:
        return "drops values between its layers in training mode"
    if len(shape) != 3:
        return "of one sequence without a batch is not covered yet"
    if len(params) != each * depth * directions:
        return "with a projection is not covered yet"
    rows = [params[i : i + each] for i in range(0, len(params), each)]
    hidden = graph.tensors[rows[0][1]].shape[1]
    if {graph.tensors[n].dtype for n in (x, *hx, *params)} - {graph.tensors[x].dtype} or 0 in shape:
        return "of tensors of several types is not covered yet"
    if graph.tensors[x].dtype not in _FLOATS:
        return f"of {graph.tensors[x].dtype} is not covered yet"
    if any(graph.tensors[n].shape != (depth * directions, shape[not at["batch_first"]], hidden) for n in hx[:1]):
        return "whose first states are seen in another shape is not covered yet"
    # The narrowest class decides here; the checks of a program refuse a wider one.
    if fit(op.op, hidden, shape[0 if at["batch_first"] else 1], directions, DType.F16) is None:
        return f"has {hidden:,} hidden units, and no cluster of 16 blocks holds their weights"
    sides = tuple(tuple(rows[i : i + directions]) for i in range(0, len(rows), directions))
    zeros = all(_is_zero(graph, n) for n in hx)
    return Network(op, x, () if zeros else tuple(hx), sides, hidden)


def _is_zero(graph: OpGraph, name: str) -> bool:
    op = graph.producer.get(name)
    return op is not None and op.op in _ZEROS


def layered(graph: OpGraph) -> OpGraph:
    """The graph with each network as a product a layer and direction, and a stage a layer."""
    every = layers(graph)
    if not every:
        return graph
    tensors, ops = dict(graph.tensors), []
    for op in graph.ops:
        ops += _written(networks(graph)[op.name], tensors) if op.name in every else [op]
    whole = replace(graph, tensors=tensors, ops=tuple(ops))
    return replace(whole, ops=whole.live)


def _written(network: Network, tensors: dict[str, Tensor]) -> Iterator[Op]:
    """The operations of a network, all under its name, by which the rules blame an operation."""
    op, x, h = network.op, network.x, network.hidden
    dtype, lead = tensors[x].dtype, tensors[x].shape[:2]
    batch = lead[0 if network.order == "bt" else 1]
    finals: list[list[str]] = [[] for _ in op.outputs[1:]]

    def add(name: str, shape: tuple[int, ...]) -> str:
        tensors.setdefault(name, Tensor(name, shape, dtype, "intermediate"))
        return name

    for layer, sides in enumerate(network.sides):
        last = layer + 1 == len(network.sides)
        gates = []
        for d, (w, _, *biases) in enumerate(sides):
            name = add(f"{op.outputs[0]}__gates{layer}_{d}", (*lead, CELLS[op.op] * h))
            yield replace(op, op="linear", inputs=(x, w, *biases[:1]), outputs=(name,), attrs={})
            gates.append(name)
        y = op.outputs[0] if last else add(f"{op.outputs[0]}__layer{layer}", (*lead, len(sides) * h))
        ends = [add(f"{op.outputs[0]}__end{layer}_{i}", (len(sides), batch, h)) for i in range(len(finals))]
        if len(network.sides) == 1:
            ends = list(op.outputs[1:])
        read = [*gates, *(s[1] for s in sides), *(s[3] for s in sides if len(s) == 4), *network.states]
        attrs: dict[str, Any] = {
            "op": op.op, "order": network.order, "layer": layer, "directions": len(sides), "biased": len(sides[0]) == 4,
        }  # fmt: skip
        yield replace(op, op=STAGE, inputs=tuple(read), outputs=(y, *ends), attrs=attrs)
        for every, end in zip(finals, ends, strict=True):
            every.append(end)
        x = y
    if len(network.sides) > 1:
        for name, every in zip(op.outputs[1:], finals, strict=True):
            yield replace(op, op="cat", inputs=tuple(every), outputs=(name,), attrs={"dim": 0})


def recurrent(walk: LoweringContext) -> dict[str, Value]:
    """The results of an operation `_recurrent`, all stored: no expression joins them."""
    op, at = walk.op, walk.op.attrs
    parts: list[Source] = []
    for name, value in zip(op.inputs, walk.arguments(), strict=True):
        parts.append(walk.see(walk.leaf(value), walk.graph.tensors[name].shape))
    draft = Recurrent(
        walk.out().shape, walk.out().dtype, [Number(float(i)) for i in range(len(op.outputs))], parts=tuple(parts),
        op=at["op"], order=at["order"], layer=at["layer"], directions=at["directions"], biased=at["biased"],
    )  # fmt: skip
    walk.drafts.append(draft)
    stage = len(walk.drafts) - 1
    return {n: Leaf.whole(reference(stage, i), draft.shape_of(i)) for i, n in enumerate(op.outputs)}


__all__ = ["NETWORKS", "STAGE", "Recurrent", "layered", "layers", "networks", "recurrent", "refusals"]
