"""What a program takes and returns, beside what a part of a module does. Pure functions, shared by sessions and the
agents' tools."""

from __future__ import annotations

from dsl.ir import DType, Program, TensorType


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


def _squeezed(result: TensorType) -> tuple[DType, list[int]]:
    return result.dtype, [d for d in result.shape if d != 1]
