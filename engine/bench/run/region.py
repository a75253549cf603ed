"""What a bench's child opens: a module of engine/problems, or one region of it as a module of its own.

A region is a part of the module's traced graph (engine.strategies.planner.regions.partition). It is run by PyTorch
operation by operation, on what the whole module gives it in float32; so eager mode, torch.compile and the float64
that a program is held against are all of the region alone. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from engine.suite.problem import Instance
from sol.graph import Op, OpGraph, Tensor


def opened(where: dict, seed: int, device: str, small: bool) -> Instance:
    """`where`: {module: the file's path, region?: {graph: the module's as JSON, ops: names of the region's}}."""
    whole = Instance.make(Path(where["module"]), seed, device, small)
    if "region" not in where:
        return whole
    from engine.strategies.planner.regions.partition import subgraph

    graph, names = OpGraph.from_json(where["region"]["graph"]), set(where["region"]["ops"])
    part = subgraph(graph, [op for op in graph.ops if op.name in names])
    if len(part.outputs) != 1:
        raise ValueError(f"the region has {len(part.outputs)} results; a bench times regions with one")
    with torch.no_grad():
        values = _values(graph, part, whole)
        model = Region(part, values, device).eval()
    inputs = [values[n] for n in part.inputs]
    return Instance(model, inputs, {t.path: values[n] for n, t in _state(part)}, None, small)


class Region(torch.nn.Module):
    """A graph run operation by operation. `values`: its parameters and buffers by their names in the graph."""

    def __init__(self, graph: OpGraph, values: dict[str, torch.Tensor], device: str):
        super().__init__()
        self._inputs, self._output = graph.inputs, graph.outputs[0]
        self._held = {}
        for i, (name, _) in enumerate(_state(graph)):
            self._held[name] = f"state{i}"
            setattr(self, f"state{i}", torch.nn.Parameter(values[name].detach(), requires_grad=False))
        self._steps = [(op.inputs, op.outputs, _call(op, device)) for op in graph.live]

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        values = dict(zip(self._inputs, inputs, strict=True))
        values |= {name: getattr(self, held) for name, held in self._held.items()}
        for reads, makes, call in self._steps:
            values.update(zip(makes, call([values[n] for n in reads]), strict=False))
        return values[self._output]

    def __deepcopy__(self, memo: dict) -> Region:
        """Its operations are shared: an overload of ATen's cannot be copied, and need not be."""
        twin = Region.__new__(Region)
        torch.nn.Module.__init__(twin)
        twin._inputs, twin._output, twin._held, twin._steps = self._inputs, self._output, self._held, self._steps
        for held in self._held.values():
            setattr(twin, held, torch.nn.Parameter(getattr(self, held).clone(), requires_grad=False))
        return twin.eval()


def _state(graph: OpGraph) -> list[tuple[str, Tensor]]:
    """Parameters and buffers that the graph's operations read."""
    read = {n for op in graph.ops for n in op.inputs}
    return [(n, t) for n, t in graph.tensors.items() if n in read and t.path and n not in graph.inputs]


def _call(op: Op, device: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    from engine.evaluate.candidate.aten import operation

    return operation(op, device)


def _values(graph: OpGraph, part: OpGraph, whole: Instance) -> dict[str, torch.Tensor]:
    """What the region reads: state, and what the module makes of its inputs before it."""
    state = whole.model.state_dict()
    values = dict(zip(graph.inputs, whole.inputs, strict=True))
    values |= {n: state[t.path] for n, t in _state(graph)}
    wanted = {*part.inputs, *(n for n, _ in _state(part))}
    inside = {op.name for op in part.ops}
    for op in graph.live:
        if wanted <= values.keys():
            break
        if op.name not in inside and set(op.inputs) <= values.keys():
            made = _call(op, str(whole.inputs[0].device))([values[n] for n in op.inputs])
            values.update(zip(op.outputs, made, strict=False))
    return {n: values[n].contiguous() if n in part.inputs else values[n] for n in wanted}
