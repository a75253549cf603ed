"""What a program takes and returns, beside what a part of a module does. Pure functions, shared by sessions and the
agents' tools."""

from __future__ import annotations

from collections.abc import Mapping

from dsl.ir import DType, Program, TensorType
from sol.graph import OpGraph


def by_name(program: Program, signature: Program) -> bool:
    """Return True if each parameter has the name and the type of one of the signature's."""
    types = {p.name: p.type for p in signature.params}
    return all(types.get(p.name) == p.type for p in program.params)


def takes(program: Program, signature: Program) -> bool:
    """Return True if a program's parameters are some of the signature's by name, or all of them in order by type."""
    return by_name(program, signature) or [p.type for p in program.params] == [p.type for p in signature.params]


def returns(program: Program, signature: Program) -> bool:
    """Return True if the results are of the same types and shapes. Axes of size 1 do not count, because they do not
    change the elements."""
    return list(map(_squeezed, program.result_types)) == list(map(_squeezed, signature.result_types))


def parameters(program: Program) -> str:
    """The parameters in the words of the language: `x: f16[64, 64], w: f16[64, 64]`."""
    return ", ".join(f"{p.name}: {p.type}" for p in program.params)


def results(program: Program) -> str:
    """The result types in the words of the language: `f16[64, 64]`."""
    return ", ".join(map(str, program.result_types))


def changing_pack(program: Program, tensors: Mapping[str, str], graph: OpGraph) -> str:
    """Why a program may not prepack what it does: a stage is done once per version of a weight, so it may read the
    module's weights, and nothing that is new in each call; "" if it may. `tensors`: the graph's, by parameter."""
    for stage, parameters in program.packed.items():
        for name in parameters:
            tensor = graph.tensors.get(tensors[name])  # None: one of a rewritten graph
            if tensor is None or tensor.kind in ("input", "intermediate"):
                what = "an input of the module" if tensor and tensor.kind == "input" else "computed by the module"
                return f"{stage} is prepacked, but {name} is {what}, which changes at every call: leave prepack out"
            if tensors[name] in graph.writes:
                return f"{stage} is prepacked, but the module writes {name} at every call: leave prepack out"
    return ""


def _squeezed(result: TensorType) -> tuple[DType, list[int]]:
    return result.dtype, [d for d in result.shape if d != 1]
