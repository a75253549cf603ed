"""The harness's own data: inputs of the module and of candidates besides the module's own inputs.

The process of the module and the process of the candidate generate the same tensors from (graph, family, seed) on the
same kind of device, so no large data passes between them. The generator is torch's own for that device: CPU and CUDA
give different values for one seed, two processes on one machine the same.

Families, each meant to catch errors that the others cannot:

    own          the module's get_inputs() and parameters, as they are. They travel through shared memory.
    normal       activations N(0, 1), weights N(0, 1/fan_in), so that a product is N(0, 1) too; 1-D parameters
                 N(0, 1). Zero-mean, because a biased sum hides lost terms. The second side of a product of two
                 inputs (the B of a bmm) counts as a weight with fan_in K.
    large        activations 128 times larger: products are around 128 and their largest around 730 (5.7 sigma),
                 two orders below f16's 65504. Overflow of a partial sum, or of a scale applied too early, shows.
    tiny         activations and 1-D parameters 2^-10 as large: products around 0.001, 16 times f16's smallest normal
                 number. What f16 loses in subnormal operands is 3e-5 of a typical one, far below its tolerance.
                 Flushing to zero, or an absolute epsilon that should be relative, shows.
    closed_form  small integers whose result is an integer that every class holds exactly: activations in -2 ... 2,
                 weights 0 or +-1 with 16 non-zeros a row on average, 1-D parameters in -2 ... 2. Each sum is below
                 256 (bf16 counts exactly up to there), so any deviation before an epilogue that rounds (a slope of
                 0.1, a gelu) is a bug and not rounding.

Three more are for guarded programs (dsl.guard), which must also be right where f16 is not:

    huge         activations of `normal` times 10^6;
    minute       activations and 1-D parameters of `normal` times 10^-6;
    uneven       `normal`, with the last row (or image) of each activation times 10^6.

Two more are for raw kernels: `powers` and `terms` (engine.evaluate.correctness.operands).

Only floating point inputs and parameters are filled. Buffers (a running variance must stay positive), constants and
integer inputs (which may be indices) keep the module's own values in every family.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod
from typing import Any

from dsl.ir import STATES
from engine.evaluate.correctness import operands
from engine.evaluate.correctness.operands import OPERAND_FAMILIES
from sol.graph import Op, OpGraph, Tensor

FAMILIES = ("own", "normal", "large", "tiny", "closed_form")
GUARD_FAMILIES = ("huge", "minute", "uneven")
EVERY = (*FAMILIES, *GUARD_FAMILIES, *OPERAND_FAMILIES)
FAR = 1e6
LARGE, TINY = 128.0, 2.0**-10
NONZEROS = 16
FLOATS = ("f64", "f32", "f16", "bf16")
NARROW = ("e4m3", "e5m2")  # saturate

# Where the second operand of a contraction stands among an op's tensors, and which of its axes is K.
_SECOND = {
    "linear": (1, -1),
    "_grouped_mm": (1, -2),
    "_int_mm": (1, -2),
    "matmul": (1, -2),
    "mm": (1, -2),
    "bmm": (1, -2),
    "addmm": (2, -2),
    "baddbmm": (2, -2),
}
_VIEWS = {
    "t", "mT", "mH", "numpy_T", "transpose", "permute", "view", "reshape", "unsqueeze", "squeeze", "contiguous",
    "clone", "expand", "flatten", "to", "_to_copy", "swapaxes", "movedim",
}  # fmt: skip


@dataclass(frozen=True)
class Role:
    """The role of a tensor in the data: `activation`, `weight` (the second side of a product of depth `k`, or any
    parameter of two or more dimensions), `vector` (a smaller parameter) or `sizes` (how many of `k` rows each group of
    a grouped product has). `rows`: its leading dimension is that of the first input and can be shortened with it.
    `product`: it is multiplied, so int8 values are numbers, not indices."""

    kind: str
    k: int
    rows: bool
    product: bool = False


def torch_dtype(name: str) -> Any:
    """The torch dtype of a name in sol.graph.DTYPE_BYTES."""
    import torch

    names = {
        "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
        "e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8",
        "bool": "bool", "c64": "complex64", "c128": "complex128",
    }  # fmt: skip
    return getattr(torch, names[name])


def widened(dtype: Any) -> Any:
    """The element type in a module that computes in float64: complex numbers have two of them, integers stay."""
    import torch

    return torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype


def input_bytes(graph: OpGraph) -> int:
    """Of one set of the module's inputs."""
    return sum(t.bytes for t in graph.tensors.values() if t.kind == "input")


def roles(graph: OpGraph) -> dict[str, Role]:
    """The role of each input and parameter, from how the graph uses it."""
    root = {name: name for name in graph.tensors}
    second: dict[str, tuple[int, int]] = {}  # tensor -> (K, rank as the contraction sees it)
    multiplied: set[str] = set()
    sizes: dict[str, int] = {}
    for op in graph.ops:
        if op.op in _VIEWS and len(op.inputs) == 1 and len(op.outputs) == 1:
            root[op.outputs[0]] = root[op.inputs[0]]
        for side in _second_operands(op, graph):
            second.setdefault(root[side[0]], side[1:])
            multiplied |= {root[op.inputs[0]], root[side[0]]}
        if op.op == "_grouped_mm":
            sizes[root[op.inputs[2]]] = graph.tensors[op.inputs[0]].shape[0]
    lead = graph.tensors[graph.inputs[0]].shape[:1] if graph.inputs else ()
    by_name: dict[str, Role] = {}
    for t in graph.tensors.values():
        if t.kind not in ("input", "parameter"):
            continue
        k, rank = second.get(t.name, (0, 0))
        if k == 0 and t.kind == "parameter" and len(t.shape) >= 2:
            k = prod(t.shape[1:])
        kind = "weight" if k else ("activation" if t.kind == "input" else "vector")
        first = bool(graph.inputs) and t.name == graph.inputs[0]
        # A 2-D second operand has K or N in front, not rows; a 1-D input may well be a bias.
        rows = t.kind == "input" and bool(lead) and t.shape[:1] == lead and rank != 2 and (first or len(t.shape) >= 2)
        by_name[t.name] = Role(kind, k, rows, t.name in multiplied)
        if t.name in sizes:
            by_name[t.name] = Role("sizes", sizes[t.name], False)
        elif sizes:  # the groups share the rows, so the rows cannot be reduced
            by_name[t.name] = Role(kind, k, False, t.name in multiplied)
    return by_name


def _second_operands(op: Op, graph: OpGraph) -> list[tuple[str, int, int]]:
    """(tensor, K, rank) of each. A recurrent network has several: larger weights would make its steps chaotic."""
    if op.op in STATES:  # its input, states and weights
        weights = [n for n in op.inputs[1 + STATES[op.op] :] if len(graph.tensors[n].shape) == 2]
        return [(n, max(graph.tensors[n].shape[1], 1), 2) for n in weights]
    side = _second_operand(op, graph)
    return [] if side is None else [side]


def _second_operand(op: Op, graph: OpGraph) -> tuple[str, int, int] | None:
    if op.op.startswith("conv") and len(op.inputs) > 1:
        shape = graph.tensors[op.inputs[1]].shape
        return op.inputs[1], max(prod(shape[1:]), 1), 2  # as a matrix's: what leads are channels
    where = _SECOND.get(op.op)
    if where is None or len(op.inputs) <= where[0]:
        return None
    shape = graph.tensors[op.inputs[where[0]]].shape
    if not shape:
        return None
    axis = where[1] if len(shape) >= 2 else -1
    return op.inputs[where[0]], max(shape[axis], 1), len(shape)


def contraction_flops(graph: OpGraph) -> float:
    """2 M N K of every product in the graph, which determines the time on a CPU."""
    total = 0.0
    for op in graph.ops:
        side = _second_operand(op, graph)
        if side is not None:
            total += 2.0 * graph.tensors[op.outputs[0]].elements * side[1]
    return total


def few_threads(graph: OpGraph) -> None:
    """Use one thread for a small problem: more threads do not help and spin beside the other processes."""
    import torch

    if sum(t.elements for t in graph.tensors.values()) < 1 << 20 and contraction_flops(graph) < 1e8:
        torch.set_num_threads(1)


def filled(t: Tensor, role: Role | None = None) -> bool:
    """Return True for tensors that families other than `own` replace: floating point ones, int8 that is multiplied, and
    the sizes of groups. Other integers may be indices and keep the module's values."""
    if t.kind not in ("input", "parameter"):
        return False
    if t.dtype in (*FLOATS, *NARROW):
        return True
    return role is not None and ((t.dtype == "i8" and role.product) or role.kind == "sizes")


def shape_at(t: Tensor, role: Role, rows: int | None) -> tuple[int, ...]:
    """The tensor's shape when only the leading `rows` rows are computed."""
    if rows is None or not role.rows:
        return t.shape
    return (min(rows, t.shape[0]), *t.shape[1:])


def fill(
    shape: tuple[int, ...],
    dtype: str,
    family: str,
    seed: int,
    name: str,
    device: str = "cpu",
    *,
    role: Role | None = None,
) -> Any:
    """One tensor of `shape` and `dtype` (a name of sol.graph) in a family other than `own`.

    Generated in float32 and rounded to `dtype` once, so both processes have the same bits. `role` defaults to an
    activation. Raises ValueError for `own`, an unknown family, or a type that keeps the module's values.
    """
    import torch

    if family not in EVERY or family == "own":
        raise ValueError(f"family {family!r} cannot be generated; one of {', '.join(FAMILIES[1:])}")
    role = role or Role("activation", 0, False)
    if dtype not in (*FLOATS, *NARROW) and not (dtype == "i8" and role.product) and role.kind != "sizes":
        raise ValueError(f"tensors of type {dtype} keep the module's own values")
    key = hashlib.sha256(f"{seed}:{family}:{name}".encode()).digest()
    generator = torch.Generator(device=device).manual_seed(int.from_bytes(key[:8], "little") >> 1)
    options = {"dtype": torch.float32, "device": device, "generator": generator}
    if role.kind == "sizes":
        return _shares(shape[0], role.k, dtype, generator, device)
    if dtype == "i8":
        return _small_integers(shape, family, options)
    if family == "closed_form":
        if role.kind == "weight":
            share = min(1.0, NONZEROS / role.k)
            x = torch.rand(shape, **options)  # one draw for both: the low end is -1, the next +1, the rest 0
            x = (x < share).to(torch.float32) - 2.0 * (x < share / 2).to(torch.float32)
        else:
            x = torch.randint(-2, 3, shape, **options)
    else:
        x = torch.randn(shape, **options)
        if role.kind == "weight":
            x.mul_(max(role.k, 1) ** -0.5)
        elif family == "tiny" or (family == "large" and role.kind == "activation"):
            x.mul_(LARGE if family == "large" else TINY)
        elif family == "minute" or (family == "huge" and role.kind == "activation"):
            x.mul_(FAR if family == "huge" else 1 / FAR)
        elif family == "uneven" and role.kind == "activation" and x.dim() > 0:
            x[-1:].mul_(FAR)
    if dtype in NARROW:
        top = torch.finfo(torch_dtype(dtype)).max
        x.clamp_(-top, top)
    return x.to(torch_dtype(dtype))


def _shares(groups: int, rows: int, dtype: str, generator: Any, device: str) -> Any:
    """The rows of each group out of `rows`, cut at random positions, so that some groups are empty and some long."""
    import torch

    cuts = torch.randint(0, rows + 1, (groups - 1,), generator=generator, device=device).sort().values
    ends = torch.cat([cuts.new_zeros(1), cuts, cuts.new_full((1,), rows)])
    return ends.diff().to(torch_dtype(dtype))


def _small_integers(shape: tuple[int, ...], family: str, options: dict[str, Any]) -> Any:
    """int8 around zero, with the family's spread: the whole range, its middle, or very small."""
    import torch

    spread = {"large": 127, "normal": 32, "tiny": 1, "closed_form": 2}.get(family, 127)
    if family == "normal":
        return torch.randn(shape, **options).mul_(spread).round_().clamp_(-127, 127).to(torch.int8)
    return torch.randint(-spread, spread + 1, shape, **options).to(torch.int8)


def fill_graph(
    graph: OpGraph, family: str, seed: int, device: str = "cpu", *, rows: int | None = None, only: str = ""
) -> dict[str, Any]:
    """Every tensor that the family replaces, by its name in the graph. `only`: input | parameter.

    Tensors that are missing in the result keep the module's own values. With `rows`, inputs that have rows are
    generated that short: a separate draw, not the first rows of the long one.
    """
    tensors = {}
    for name, role in roles(graph).items():
        t = graph.tensors[name]
        if filled(t, role) and (not only or t.kind == only):
            tensors[name] = fill(shape_at(t, role, rows), t.dtype, family, seed, name, device, role=role)
    if family in OPERAND_FAMILIES:
        operands.adjust(graph, family, tensors, seed)
    return tensors
