"""First-principles bounds: how fast the work could run on a chip that overlaps everything perfectly.

    t_sol = max(matrix FLOPs / peak of the class, vector FLOPs / peak of the pipes, specials / rate of `special_ms`,
                bytes / memory bandwidth)

where matrix FLOPs are those that must be done (`sol.cost.needed`), with the whole module fused: bytes are each external
tensor read once, as far as it is read, and each output written once. (The roofline of Williams, Waterman, Patterson,
CACM 52(4), 2009, with one more roof for each unit.) In class f32 products run on the same pipes as everything else, so
the two add up. The unfused bound is the sum of the bounds of the single ops; its difference to the fused bound is the
most that fusion can save. `ceiling` is the fused bound at the rates measured on such a device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sol.cost.cost import Cost, canonical
from sol.cost.graph_costs import costs_of, parts_of
from sol.cost.in_place import parts as parts_in_place
from sol.cost.in_place import written_elements
from sol.cost.masks import is_mask, makers
from sol.cost.needed_parts import vector_share
from sol.cost.op_table import GATHERS, SHAPED_LIKE, SUBSETS
from sol.cost.ops import touched
from sol.graph import DTYPE_BYTES, Op, OpGraph
from sol.hardware import Hardware, HardwareError

CLASS_OF_DTYPE = {
    "c128": "f64", "f64": "f64", "c64": "f32", "f32": "f32", "bf16": "bf16", "f16": "f16", "e4m3": "fp8", "e5m2": "fp8",
    "i8": "i8",
}  # fmt: skip
_LEGAL = {
    "f64": ("f64",),
    "f32": ("f32", "tf32", "f16", "bf16", "fp8"),
    "f16": ("f16", "fp8"),
    "bf16": ("bf16", "fp8"),
    "fp8": ("fp8",),
    "i8": ("i8",),
}
# Vector FLOPs of a special function without its unit: at least two fused multiply-adds to split off the exponent, and
# a polynomial of degree 2, which gives the 8 bits of bf16.
POLYNOMIAL_FLOPS = 8
_WIDEST_FIRST = ("c128", "f64", "c64", "f32", "bf16", "f16", "e4m3", "e5m2")


@dataclass(frozen=True)
class Bound:
    """One bound of one piece of work. Times in ms; `bound_by`: matrix | vector | special | memory. In class f32 the
    vector pipes do the products too, so their time is in `vector_ms` and `matrix_ms` is 0. `special_ms`: of special
    functions that the special-function units share with the vector pipes."""

    ms: float
    bound_by: str
    matrix_ms: float
    vector_ms: float
    special_ms: float
    memory_ms: float
    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Bounds:
    """All bounds of a graph in one precision class. `unfused_ms` is the sum over ops."""

    cls: str
    fused: Bound
    ceiling: Bound
    unfused_ms: float
    ridge: float

    @property
    def ms(self) -> float:
        """t_sol in ms."""
        return self.fused.ms


def roofs(
    matrix: float, vector: float, special: float, bytes_: float, hw: Hardware, cls: str, *, ceiling: bool = False
) -> Bound:
    """The largest of the four roofs for this much work.

    With `ceiling` the matrix and memory rates are those measured on such a device. Raises HardwareError when the
    device has no units of this class.
    """
    peak, bandwidth = (hw.ceiling(cls), hw.copy_rate) if ceiling else (hw.peak(cls), hw.bandwidth)
    # Every class may use the exact vector pipes: on chips whose tensor cores are slower, they are the roof.
    peak = max(peak, hw.vector_peak(cls)) if not ceiling else peak
    parts = {
        "matrix": matrix / peak * 1e3,
        "vector": vector / hw.vector_peak(cls) * 1e3,
        "memory": bytes_ / bandwidth * 1e3,
    }
    if cls == "f32" or (cls == "f64" and hw.kind == "cpu"):  # the vector pipes do both
        parts["vector"] += parts.pop("matrix")
        parts["matrix"] = 0.0
    elif cls == "f64" and matrix:
        parts["matrix"] += parts["vector"]
    parts["special"] = _special_ms(special, parts["vector"], hw, cls)
    by = max(parts, key=lambda k: parts[k])
    return Bound(
        parts[by],
        by,
        parts["matrix"],
        parts["vector"],
        parts["special"],
        parts["memory"],
        matrix + vector,
        bytes_,
    )


def _special_ms(special: float, vector_ms: float, hw: Hardware, cls: str) -> float:
    """The least time of this many special functions in ms, beside other work of `vector_ms` on the vector pipes.

    Any of them may be a polynomial on the vector pipes instead, as in FlashAttention-4's exp2. The best kernel divides
    them so that both units are busy all the time, unless the vector pipes' own work takes longer anyway.
    """
    units_ms, pipes_ms = special / hw.sfu * 1e3, special * POLYNOMIAL_FLOPS / hw.vector_peak(cls) * 1e3
    if not special or units_ms <= vector_ms:
        return units_ms
    # x on the units and 1 - x on the pipes: x units_ms = vector_ms + (1 - x) pipes_ms
    return units_ms * (vector_ms + pipes_ms) / (units_ms + pipes_ms)


def of_cost(c: Cost, hw: Hardware, cls: str) -> Bound:
    """The bound of one operation that reads its inputs from memory and writes its outputs there."""
    return roofs(c.must, c.vector, c.special, c.bytes, hw, cls)


def native_class(graph: OpGraph) -> str:
    """The class of the module as written: that of the widest floating type that a product or convolution reads (a
    float32 bias beside f16 operands does not make it f32), or of all tensors where there is no product. f64 counts
    if no product reads another type. A module whose products read only i8 has class i8; any other module of integers
    has class f32, whose pipes do that work."""
    read = set()
    for op in graph.ops:
        if costs_of(graph)[op.name].kind in ("matrix", "conv"):
            first = 1 if canonical(op.op) in ("addmm", "baddbmm", "addmv") else 0
            read |= set(op.inputs[first : first + 2])
    operands = {graph.tensors[n].dtype for n in read}
    present = operands or {t.dtype for t in graph.tensors.values()}
    if operands & {"f32", "f16", "bf16"}:
        present = operands - {"f64"}  # such a product stays PyTorch, and no class changes it
    for dtype in _WIDEST_FIRST:
        if dtype in present:
            return CLASS_OF_DTYPE[dtype]
    return "i8" if "i8" in operands else "f32"


def pytorch_class(cls: str, graph: OpGraph) -> str:
    """The class of PyTorch's baseline for a class. PyTorch casts no operands to fp8 by itself, so its baseline for fp8
    is f16, or a half-precision module's own type."""
    native = native_class(graph)
    if cls != "fp8" or native == "fp8":
        return cls
    return "f16" if native == "f32" else native


def legal_classes(graph: OpGraph, hw: Hardware) -> tuple[str, ...]:
    """Classes that a program for this graph may use on this device, the most exact first."""
    floats = any(t.dtype in _WIDEST_FIRST for t in graph.tensors.values())
    native = native_class(graph)
    classes = _LEGAL[native] if floats else (native,)
    return tuple(c for c in classes if c in hw.peaks)


def live_ops(graph: OpGraph) -> tuple[Op, ...]:
    """The ops that some output depends on, in order; the rest need not run."""
    return graph.live


def external_bytes(graph: OpGraph) -> dict[str, float]:
    """Compulsory traffic in bytes by tensor: external tensors read once (as far as they are read), outputs written.

    A tensor that is only gathered or sliced from counts for the part taken; a tied weight counts once; an output
    that is merely a view of an input costs nothing. A mask that is the same in every call need not be read.
    """
    if "external_bytes" not in graph.cache:
        graph.cache["external_bytes"] = _external_bytes(graph)
    return dict(graph.cache["external_bytes"])


def _external_bytes(graph: OpGraph) -> dict[str, float]:
    ops, costs = graph.live, costs_of(graph)
    producer = {n: op for op in ops for n in op.outputs}
    need: dict[str, float] = {}  # elements of a tensor that are read
    parts: dict[tuple[str, str, str], float] = {}  # elements of its slices that are counted already
    in_place = parts_in_place(graph)
    outputs = set(graph.outputs)
    for name in outputs:  # an output that is a view needs its base
        if name in producer and costs[producer[name].name].kind == "view":
            need[name] = graph.tensors[name].elements
    for op in reversed(ops):
        if op.name in makers(graph):
            continue
        view, attrs = costs[op.name].kind == "view", str(op.attrs)
        inputs = op.inputs[:1] if canonical(op.op) in SHAPED_LIKE else op.inputs
        inputs = [n for n in inputs if not is_mask(op, n, graph)]
        for name in dict.fromkeys(inputs):
            t = graph.tensors[name]
            if op.name in in_place and name == op.inputs[0]:
                take = max(0, need.get(op.outputs[0], 0) - in_place[op.name])
            elif not view:
                take = touched(op, t, graph.tensors) if costs[op.name].read else 0
                share = parts_of(graph)[1][op.name, name]
                take = take * share if canonical(op.op) in GATHERS else min(take, share * t.elements)
            elif canonical(op.op) in SUBSETS:
                whole = min(t.elements, sum(need.get(n, 0) for n in op.outputs))
                part = (name, canonical(op.op), attrs)  # the same slice twice is read once
                take = max(0.0, whole - parts.get(part, 0.0))
                parts[part] = max(whole, parts.get(part, 0.0))
            else:
                take = min(t.elements, max((need.get(n, 0) for n in op.outputs), default=0))
            need[name] = min(t.elements, need.get(name, 0) + take)
    total: dict[str, float] = {}
    for name, t in graph.tensors.items():
        if name not in producer and t.kind != "intermediate" and need.get(name):
            total[name] = need[name] * DTYPE_BYTES[t.dtype]
    leaves: dict[str, bool] = {}
    for name in dict.fromkeys(graph.outputs):
        base = name
        while base in producer and costs[producer[base].name].kind == "view" and producer[base].inputs:
            base = producer[base].inputs[0]
        if base in producer and f"write:{base}" not in total:
            t = graph.tensors[name]
            total[f"write:{base}"] = written_elements(graph, base) * DTYPE_BYTES[t.dtype] if base == name else t.bytes
        elif base not in producer and base != name:
            if base not in leaves:
                leaves[base] = _only_leaves(base, graph, ops, costs)
            if leaves[base]:
                total.pop(base, None)  # input -> view -> output: no data moves
    return total


def _only_leaves(name: str, graph: OpGraph, ops: tuple[Op, ...], costs: dict[str, Cost]) -> bool:
    reached = {name}
    for op in ops:
        if reached & set(op.inputs):
            if costs[op.name].kind != "view":
                return False
            reached |= set(op.outputs)
    return True


def as_stored(graph: OpGraph, cls: str) -> OpGraph:
    """The graph as a program of this class may have it stored: inputs as given, parameters cast once a weight version.

    A float32 module's inputs and outputs stay float32 in every class, and casting them is inside the timed region;
    its parameters may be prepacked at the class's own width (f16, bf16: 2 bytes, fp8: 1).
    """
    narrow = {"f16": "f16", "bf16": "bf16", "fp8": "e4m3"}.get(cls)
    if narrow is None or native_class(graph) != "f32":
        return graph
    return _at_width(graph, narrow, ("parameter", "buffer"))


def _at_width(graph: OpGraph, dtype: str, kinds: tuple[str, ...]) -> OpGraph:
    """The graph with its f32 tensors of these kinds stored as `dtype`."""
    key = f"{dtype} {kinds}"
    if key not in graph.cache:
        tensors = {
            n: replace(t, dtype=dtype) if t.dtype == "f32" and t.kind in kinds else t for n, t in graph.tensors.items()
        }
        graph.cache[key] = replace(graph, tensors=tensors)
    return graph.cache[key]


def fused_bound(graph: OpGraph, hw: Hardware, cls: str, *, ceiling: bool = False) -> Bound:
    """t_sol (or t_ceiling) of the whole graph as one perfect kernel. Bytes are those of `as_stored`."""
    graph = as_stored(graph, cls)
    costs, needed = costs_of(graph), parts_of(graph)[0]
    ops = [op for op in graph.live if op.name not in makers(graph)]
    work = [(costs[op.name], vector_share(op, costs[op.name].kind, graph, needed)) for op in ops]
    return roofs(
        sum(c.must for c, _ in work),
        sum(c.vector * share for c, share in work),
        sum(c.special * share for c, share in work),
        sum(external_bytes(graph).values()),
        hw,
        cls,
        ceiling=ceiling,
    )


def bounds(graph: OpGraph, hw: Hardware, cls: str) -> Bounds:
    """Every bound of one class. Raises HardwareError when the class is not legal here, naming those that are."""
    legal = legal_classes(graph, hw)
    if cls not in legal:
        raise HardwareError(
            f"class {cls!r} does not apply to this module on {hw.title}; choose from {', '.join(legal)}"
        )
    fused = fused_bound(graph, hw, cls)
    stored = as_stored(graph, cls)
    costs = costs_of(stored)
    unfused = sum(of_cost(costs[op.name], hw, cls).ms for op in stored.live)
    return Bounds(cls, fused, fused_bound(graph, hw, cls, ceiling=True), max(unfused, fused.ms), hw.ridge(cls))


def t_sol(graph: OpGraph, hw: Hardware, cls: str) -> float:
    """The first-principles limit in ms: gaps, scores and budgets are computed from it."""
    return bounds(graph, hw, cls).ms


def recast(graph: OpGraph, dtype: str) -> OpGraph:
    """The graph after `module.half()` with inputs cast beforehand: every f32 tensor becomes `dtype`."""
    return _at_width(graph, dtype, ("input", "parameter", "buffer", "constant", "intermediate"))
