"""A module of several programs and a rest: its parts as graphs, its predicted time, and its form for workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from dsl.ir import Program
from engine.devices import Placed
from sol.attainable import predict, predict_eager
from sol.bounds import pytorch_class
from sol.cost.graph_costs import costs_of
from sol.graph import Op, OpGraph
from sol.hardware import Hardware


def subgraph(graph: OpGraph, ops: list[Op]) -> OpGraph:
    """`ops` alone: the tensors that they read from outside are inputs, those that others read from them (or the module
    returns) are outputs."""
    inside = {op.name for op in ops}
    results = [n for op in ops for n in op.outputs]
    read = [n for op in ops for n in op.inputs]
    outputs = [
        n
        for n in results
        if n in graph.outputs or any(reader.name not in inside for reader in graph.readers.get(n, ()))
    ]
    inside_tensors = set(results)
    outside = [n for n in dict.fromkeys(read) if n not in inside_tensors]
    inputs = [n for n in graph.inputs if n in outside]
    inputs += [n for n in outside if graph.tensors[n].kind == "intermediate"]
    tensors = {n: graph.tensors[n] for n in graph.tensors if n in inside_tensors or n in outside}
    for n in inputs:
        if tensors[n].kind == "intermediate":  # it is handed over dense
            tensors[n] = replace(tensors[n], kind="input", strides=())
    return OpGraph(tensors, tuple(ops), tuple(inputs), tuple(outputs))


def expected_ms(
    graph: OpGraph, placed: Iterable[tuple[Iterable[str], Program]], hw: Hardware, cls: str
) -> tuple[float, float]:
    """(the whole module, its programs alone) in ms: each program by the attainable model, every other operation as
    PyTorch runs it in the class, and the copies around them. `placed`: (operations, resolved program)."""
    inside: set[str] = set()
    covered, copied = 0.0, list(dict.fromkeys(graph.written.values()))
    for ops, program in placed:
        inside.update(ops)
        covered += predict(program, hw).ms
        copied += _gathered(graph, set(ops))
    copies = predict_eager(_copies(graph, copied), hw, "f32").ms if copied else 0.0  # they cast nothing
    rest = [op for op in graph.live if op.name not in inside]
    moves = [op for op in rest if costs_of(graph)[op.name].kind not in ("view", "none")]
    if not moves:
        return covered + copies, covered
    theirs = pytorch_class(cls, graph)
    return covered + copies + predict_eager(subgraph(graph, rest), hw, theirs, autocast=True).ms, covered


def _gathered(graph: OpGraph, inside: set[str]) -> list[str]:
    """The tensors that a program reads from PyTorch and that lie there in another order, or with gaps: PyTorch copies
    them before each run (engine.evaluate.candidate.region_runtime)."""
    ops = [op for op in graph.live if op.name in inside]
    own = {n for op in ops for n in op.outputs}
    read = dict.fromkeys(n for op in ops for n in op.inputs if n not in own)
    return [n for n in read if graph.tensors[n].kind == "intermediate" and graph.tensors[n].strides]


def _copies(graph: OpGraph, copied: list[str]) -> OpGraph:
    """The copies that PyTorch makes around the programs: of new values into the tensors that forward writes, and of
    what programs read."""
    names = [f"{n}_copied_{i}" for i, n in enumerate(copied)]
    tensors = {n: replace(graph.tensors[n], kind="input", strides=()) for n in copied}
    ops = []
    for n, name in zip(copied, names, strict=True):
        tensors[name] = replace(graph.tensors[n], name=name, kind="intermediate", strides=())
        ops.append(Op(name, "clone", (n,), (name,), {"memory_format": None}))
    return OpGraph(tensors, tuple(ops), tuple(dict.fromkeys(copied)), tuple(names))


def to_json(placed: Placed, **more: object) -> dict:
    """A program in its module, in the form for a worker; `more`: the place of its machine code."""
    types = placed.program.result_types
    outputs = [{**asdict(b), "dtype": t.dtype.value} for b, t in zip(placed.outputs, types, strict=True)]
    inputs = [asdict(b) for b in placed.inputs]
    return {"ops": list(placed.ops), "program": placed.text, "inputs": inputs, "outputs": outputs, **more}
