"""Operations on tensors without elements, which compute nothing: a model with no register tokens still joins them to
the others, and one whose windows need no shift still fills the strips beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_INTO = ("slice_scatter", "select_scatter", "diagonal_scatter", "index_copy", "index_add", "scatter_add")


def without(ops: list[dict], tensors: Mapping[str, dict], outputs: Collection[str]) -> list[dict]:
    """The operations without those that only join or write a tensor without elements to another. `tensors`: name -> its
    entry; `outputs`: the names of what the graph returns. Others stay, and whoever reads the graph may refuse them."""
    left, same = [], {}

    def empty(name: str) -> bool:
        return 0 in tensors[name]["shape"]

    for op in ops:
        reads = [same.get(name, name) for name in op["inputs"]]
        whole = None  # the one tensor that the result is equal to
        if op["op"] == "cat":
            reads = [name for name in reads if not empty(name)] or reads
            whole = reads[0] if len(reads) == 1 else None
        elif op["op"] in _INTO and any(map(empty, reads[1:])):
            whole = reads[0]
        if whole is not None and _alike(tensors[whole], tensors[op["outputs"][0]]):
            if op["outputs"][0] not in outputs:
                same[op["outputs"][0]] = whole
                continue
            op = {**op, "op": "clone", "attrs": {"memory_format": None}}
            reads = [whole]
        elif len({tensors[name]["dtype"] for name in (*reads, *op["outputs"])}) > 1:
            reads = [same.get(name, name) for name in op["inputs"]]  # one without elements may decide the type
        left.append({**op, "inputs": reads})
    return left


def _alike(a: dict, b: dict) -> bool:
    return (a["shape"], a["dtype"]) == (b["shape"], b["dtype"])


__all__ = ["without"]
