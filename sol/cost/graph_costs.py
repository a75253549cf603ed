"""Costs and needed parts of a whole graph, computed once for each graph and stored in its `cache`."""

from __future__ import annotations

from dataclasses import replace

from sol.cost.cost import Cost
from sol.cost.needed import shares
from sol.cost.needed_parts import Part, parts
from sol.cost.ops import cost
from sol.graph import OpGraph


def costs_of(graph: OpGraph) -> dict[str, Cost]:
    """Op name -> its cost. `needed` leaves out the work that the operations around it make unnecessary."""
    if "costs" not in graph.cache:
        own = {op.name: cost(op, graph.tensors) for op in graph.ops}
        part = {name: replace(own[name], needed=own[name].must * share) for name, share in shares(graph, own).items()}
        graph.cache["costs"] = own | part
    return graph.cache["costs"]


def parts_of(graph: OpGraph) -> tuple[dict[str, Part], dict[tuple[str, str], float]]:
    """Tensor -> the part of it that the outputs depend on, and (op, input) -> the share of the input's elements that
    the op has to read (`sol.cost.needed_parts.parts`)."""
    if "parts" not in graph.cache:
        graph.cache["parts"] = parts(graph, costs_of(graph))
    return graph.cache["parts"]
