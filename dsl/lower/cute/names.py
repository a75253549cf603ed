"""Names of tensors in the generated module: their own names, unless Python or the module uses them."""

from __future__ import annotations

import keyword
from dataclasses import fields, is_dataclass, replace

from dsl.ir import Also, Load, Operand, Program, StageBase

# Names of the module that a stage or tensor must not shadow, and constants that its upper case must not equal.
CONSTANTS = {"THREADS", "ROWS", "TENSORS", "STAGES", "INPUTS", "OUTPUTS", "CAST_VERSION", "WORKSPACE", "LANES"}
CONSTANTS |= {f"{part}_VERSION" for part in ("REDUCE", "OFFSET", "OFFSETS", "PAIRS", "WATCHED", "GATE")}
RESERVED = {
    *("os", "torch", "cute", "cutlass", "quack", "math", "operator", "build", "load", "run", "check", "launch"),
    *("inputs", "outputs", "artifact", "acc", "fakes", "stage", "stages", "operands", "device", "t", "memory", "at"),
    *("fmax", "fmin", "gelu_erf", "gelu_tanh_approx", "silu", "sigmoid", "partial", "graphs"),
    *("guard_flag", "greatest", "out_of_range", "raise_where", "watch", "leave_where_set"),
}
# Names of variables in generated kernels, which would hide a tensor of the same name.
LOCALS = {
    name
    for line in (
        "across_block across_lanes allocator at block c0 c1 c2 channel chosen chunk chunks column columns",
        "count dtype each_lane end far fetch filters first found i index index_end inside j k key lane lanes",
        "last layout limit live live_end memory narrow near number offset offsets one other out out0 out1",
        "out2 out3 outer p param0 param1 param2 param3 part parts place places places_end plane q read ready",
        "ready_end registers row select_ shared square squares stat0 stat1 state states step step_end steps",
        "store stream sums tail taps tensor tensors thread tile total turn value values vector vector_end",
        "vectors vectors_end weights whole write x_thread x_values y_thread",
        "batch batches begin counts deep most reads rows rows_first columns_first several turns",
    )
    for name in line.split()
}
DERIVED = (
    *(f"concat{i}" for i in range(64)),
    *(f"partial{i}" for i in range(6)),
    *("epilogue", "operands", "packed", "partial", "stats", "element", "of", "kernel", "first", "second"),
    *("heads", "at", "step", "tile", "row", "result", "launch", "merge", "square", "values"),
)


def names_of(tensors: list[str], own: bool = False) -> dict[str, str]:
    """Tensor -> its name in Python. `own`: the module has generated kernels."""
    reserved = RESERVED | (LOCALS if own else set())
    out: dict[str, str] = {}
    others: set[str] = set()
    constants = set(CONSTANTS)
    derived = {f"{name}_{part}" for name in tensors for part in DERIVED}
    for name in tensors:
        safe = name
        while (
            not safe.isidentifier()
            or keyword.iskeyword(safe)
            or safe.startswith("_")
            or safe in reserved
            or safe in derived
            or safe in others
            or safe.upper() in constants
        ):
            safe = f"t{safe}" if not safe.isidentifier() or safe.startswith("_") else f"{safe}_"
        out[name] = safe
        others.add(safe)
        constants.add(safe.upper())
    return out


def renamed(item, names: dict[str, str]):
    """A program, a stage or an expression with its tensors renamed; the names of lets stay."""
    if isinstance(item, tuple):
        return tuple(renamed(x, names) for x in item)
    if isinstance(item, str) or not is_dataclass(item):
        return item
    changes = {}
    for f in fields(item):
        if f.name in ("span", "clauses", "arch_span", "type", "config"):
            continue
        value = getattr(item, f.name)
        if isinstance(value, tuple) or is_dataclass(value):
            new = renamed(value, names)
            if new is not value and new != value:
                changes[f.name] = new
    if isinstance(item, Operand | Load | Also | StageBase) or type(item).__name__ == "Param":
        changes["name"] = names[item.name]
    if isinstance(item, Program):
        changes["results"] = tuple(names[r] for r in item.results)
    return replace(item, **changes) if changes else item
