"""The worker that runs a program's meaning on the CPU and compares it: `python -m engine.start
engine.evaluate.correctness.oracle_main`.

One request holds a program, its parameters, a family and a seed, and the place of the reference. The worker generates
the same inputs as the reference process (engine.evaluate.correctness.inputs), runs the oracle, and returns the
comparison of each result. It keeps references, so the next precision class needs none from the module's process.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import torch

from engine import jsonprocess
from engine.evaluate import shared_tensors
from engine.evaluate.candidate.binding import bound
from engine.evaluate.candidate.region_runtime import Place, RegionRuntime
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.tolerance import compare, finite
from engine.evaluate.integrity.process import judge_main
from engine.evaluate.reference.pytorch_classes import accumulating
from sol.graph import OpGraph

KEEP = 6  # references in memory, of at most KEEP_BYTES each
KEEP_BYTES = 256 << 20
INPUT_BYTES = 1 << 30  # of cached inputs: generating 8192 x 8192 normal numbers takes longer than multiplying
_graphs: dict[str, OpGraph] = {}
_references: dict[tuple, list[torch.Tensor]] = {}
_inputs_held: dict[tuple, torch.Tensor] = {}


def _values(request: dict, graph: OpGraph) -> dict[str, torch.Tensor]:
    """Every tensor that the program reads, by its name in the graph. Tensors of earlier requests are cached."""
    names = sorted({b["tensor"] for b in request["inputs"]})
    where = (request["family"], request["seed"], request["rows"])
    cached = {name: _inputs_held[(*where, name)] for name in names if (*where, name) in _inputs_held}
    fresh = _fresh(request, graph, [name for name in names if name not in cached])
    for name, value in fresh.items():
        _inputs_held[(*where, name)] = value
    while sum(v.numel() * v.element_size() for v in _inputs_held.values()) > INPUT_BYTES:
        _inputs_held.pop(next(iter(_inputs_held)))
    return cached | fresh


def _fresh(request: dict, graph: OpGraph, names: list[str]) -> dict[str, torch.Tensor]:
    """The tensors generated as in the reference process, or read from the module's shared memory."""
    rows, family = request["rows"], request["family"]
    roles = data.roles(graph)
    values: dict[str, torch.Tensor] = {}
    if family != "own":
        for name in names:
            t = graph.tensors[name]
            if name in roles and data.filled(t, roles[name]):
                shape = data.shape_at(t, roles[name], rows)
                values[name] = data.fill(shape, t.dtype, family, request["seed"], name, role=roles[name])
    missing = [name for name in names if name not in values]
    if missing:
        if not request.get("own"):
            raise ValueError(f"there are no values for {', '.join(missing)}")
        own = shared_tensors.read(shared_tensors.Region.from_json(request["own"]), missing)
        for name, value in own.items():
            role = roles.get(name)
            values[name] = value[: data.shape_at(graph.tensors[name], role, rows)[0]] if role and role.rows else value
    return values


def _inputs(request: dict, graph: OpGraph) -> list[torch.Tensor]:
    values = _values(request, graph)
    return [bound(b, values[b["tensor"]]) for b in request["inputs"]]


def _graph(request: dict) -> OpGraph:
    key = request["key"]
    if key not in _graphs:
        if "graph" not in request:
            raise KeyError("graph")
        _graphs.clear()
        _references.clear()
        _inputs_held.clear()
        _graphs[key] = OpGraph.from_json(request["graph"])
    return _graphs[key]


def judge(request: dict) -> dict:
    """{results: [{error, max_error, unexpected, elements}], seconds} of a program against its reference.

    With `placed`, the whole module runs, with programs in place of its regions
    (engine.evaluate.candidate.region_runtime).

    The reference is `request["reference"]` (a shared region), a cached one or, with `ideal`, the program itself in
    float64 without any rounding.
    """
    started = time.perf_counter()
    graph, program = _graph(request), oracle.checked_program(request["program"])
    composed = _composed(request, graph) if request.get("placed") else None
    if composed is not None:  # the inputs and outputs of the whole module
        outputs = [{"tensor": n} for n in graph.outputs]
        request = {**request, "inputs": [{"tensor": n} for n in composed.read], "outputs": outputs}
    inputs = _inputs(request, graph) if composed is None else []
    key = (request["family"], request["seed"], request["rows"])
    if request.get("ideal"):
        references = oracle.run(program, inputs, exact=True)
    elif request.get("reference"):
        region = shared_tensors.Region.from_json(request["reference"])
        read = shared_tensors.read(region)
        references = [read[b["tensor"]] for b in request["outputs"]]
        if sum(w.numel() * w.element_size() for w in references) <= KEEP_BYTES:
            while len(_references) >= KEEP:
                _references.pop(next(iter(_references)))
            _references[key] = references
    else:
        references = _references[key]
    if composed is None:
        results = oracle.run(program, inputs)
    else:
        with accumulating():
            outputs = composed.run(_values(request, graph))
        results = [outputs[n] for n in graph.outputs]
    comparisons: list[dict[str, Any]] = []
    for out, want in zip(results, references, strict=True):
        c = compare(out.reshape(want.shape), want)
        comparisons.append({**vars(c), "error": finite(c.error), "max_error": finite(c.max_error)})
    return {"results": comparisons, "seconds": time.perf_counter() - started}


def _composed(request: dict, graph: OpGraph) -> RegionRuntime:
    """The module with programs' meanings in place of its regions."""
    places = []
    for p in request["placed"]:
        program = oracle.checked_program(p["program"])
        meaning = functools.partial(oracle.run, program)
        places.append(Place(frozenset(p["ops"]), p["inputs"], p["outputs"], meaning=meaning))
    return RegionRuntime(graph, places, "cpu", request["cls"])


def stored(request: dict) -> dict:
    """Whether a reference of this family, seed and rows is still cached for this graph."""
    key = (request["family"], request["seed"], request["rows"])
    return {"kept": request["key"] in _graphs and key in _references}


def main() -> None:
    torch.set_grad_enabled(False)
    jsonprocess.serve({"judge": judge, "kept": stored, **judge_main.handlers("cpu")})
