"""Blocks of torch.autocast, which torch.export keeps whole: their casts are operations of a program as any others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.sandbox.channel import PASTED
from engine.trace.names import foreign, remarks

_LINE = re.compile(rf'File "{re.escape(PASTED)}", line (\d+)')


def enabled(program: Any) -> bool:
    """Return True if an exported program has a block that casts operands. Blocks of a device on which the program has
    no tensors cast none."""
    nodes = list(_nodes(program.graph_module))
    devices = {n.meta["val"].device.type for n in nodes if hasattr(n.meta.get("val"), "device")}
    block = next((i for i, node in enumerate(nodes) if _casts(node, devices)), None)
    if block is not None:
        lines = [line for node in nodes[block + 1 :] for line in _LINE.findall(_trace(node))[-1:]]
        remarks.remark("autocast", lines[0] if lines else "")
    return block is not None


def without_blocks(program: Any) -> Any:
    """The program with the operations of its blocks, and their casts, in the blocks' place. PyTorch forgets their lines
    there: each operation gets that of the one that it was, and a cast that of the operation that it is for."""
    before = [(_name(node), _trace(node)) for node in _nodes(program.graph_module) if _name(node)]
    program = program.run_decompositions({})
    at, trace, waiting = 0, "", []
    for node in program.graph.nodes:
        own = _name(node)
        waiting.append(node)
        place = next((i for i in range(at, len(before)) if before[i][0] == own), None) if own else None
        if place is not None:
            at, trace = place + 1, before[place][1]
            _place(waiting, trace)
            waiting = []
    _place(waiting, trace)
    return program


def _place(nodes: list[Any], trace: str) -> None:
    """Give the operations without a line of the text the stack of another one."""
    for node in nodes:
        if node.op == "call_function" and not _LINE.search(_trace(node)):
            node.meta["stack_trace"] = trace


def _trace(node: Any) -> str:
    return node.meta.get("stack_trace") or ""


def _name(node: Any) -> str:
    """An operation's name; "" for a cast, of which there are more without the blocks, and for what is no operation."""
    schema = getattr(node.target, "_schema", None)
    name = schema.name.split("::")[-1].rstrip("_") if node.op == "call_function" and schema is not None else ""
    return "" if name in ("to", "_to_copy") else name


def _casts(node: Any, devices: set[str]) -> bool:
    """Return True for a block of autocast(device, type, enabled, ...) that casts."""
    named = node.op == "call_function" and getattr(node.target, "_schema", None) is None
    return named and foreign.name_of(node.target) == "autocast" and node.args[0] in devices and bool(node.args[2])


def _nodes(module: Any) -> Iterator[Any]:
    """The nodes of a graph, each block's own after the block."""
    for node in module.graph.nodes:
        yield node
        for value in node.args if node.op == "call_function" else ():
            inner = getattr(module, str(getattr(value, "target", "")), None)
            if hasattr(inner, "graph"):
                yield from _nodes(inner)


__all__ = ["enabled", "without_blocks"]
