"""The time of PyTorch eager: one library kernel per operation, each pointwise op a round trip through memory.

The library's products are priced by the same tile model as our own programs, at the best of the tiles that cuBLAS
ships. Recorded times show three more effects: operands whose rows are not 16-byte aligned use old, slow kernels; tf32
with neither operand contiguous along K takes a slower path; a matrix times a vector runs at memory speed.
Convolutions run as implicit GEMMs with a layout conversion on each side, as cuDNN does for NCHW tensors.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from sol.bounds import native_class, recast
from sol.cost.cost import Cost, canonical
from sol.cost.graph_costs import costs_of
from sol.cost.in_place import is_done_by_its_source
from sol.cost.in_place import parts as parts_in_place
from sol.cost.op_table import is_inference_batch_norm
from sol.graph import DTYPE_BYTES, Op, OpGraph, Tensor
from sol.hardware import Hardware
from sol.model.autocast import autocast as under_autocast
from sol.model.prediction import Attainable, StageTime, queued, stream_ms
from sol.model.recurrent import LIBRARY_US, library_time
from sol.model.tiles import GAP_MS, LAUNCH_MS, Product, TileTime, Tiling, engine_of, tile_time

_LIBRARY_TILES = {
    "wgmma": ((128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64)),
    "mma": ((256, 128), (128, 256), (128, 128), (128, 64), (64, 64)),
    "simt": ((128, 128), (128, 64), (64, 64), (32, 128), (128, 32)),
}
_MISALIGNED = {"tf32": 0.25, "f16": 0.14, "bf16": 0.14, "fp8": 0.14}  # share of the peak without 16-byte rows
_TF32_BOTH_STRIDED = 0.6
GROUP_NS = 0.85  # the least time of a group or row of a norm, which is one block
FLAT_GROUP_NORM_NS = 0.013  # per element of a group norm without spatial axes: neither roof binds it
_PLAIN = frozenset(["linear", "mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "addmv", "addbmm"])
_ATTENTION_SHARE = 0.55
_CONV_SHARE = 0.62


@lru_cache(maxsize=4096)
def library_product(p: Product, hw: Hardware) -> TileTime:
    """The best tile time over a vendor library's tiles, with split-K for products of few tiles."""
    engine = engine_of(hw, p.cls)
    k = 32 if engine == "simt" else max(16, int(128 // p.in_bytes))
    best = None
    for bm, bn in _LIBRARY_TILES[engine]:
        tiles = p.l * ceil(p.m / bm) * ceil(p.n / bn)
        splits = {1}
        if 2 * tiles <= hw.sms:
            full = hw.sms // max(1, tiles)  # a product without elements has no tile
            splits |= {s for s in (2, 4, 8, 16, full) if s <= min(full, max(1, p.k // (2 * k)))}
        for s in splits:
            cluster = (2, 1) if engine == "wgmma" and p.m > bm else (1, 1)
            t = Tiling((bm, bn, k), cluster, "cooperative", "split_k" if s > 1 else "persistent", s, 4)
            time = tile_time(p, t, hw)
            if best is None or time.ms < best.ms:
                best = time
    return best


class _Layout:
    """Which tensors are transposed views, for the layout of a product's operands and for copies."""

    def __init__(self, graph: OpGraph):
        self.swapped: dict[str, bool] = {}
        for op in graph.ops:
            name = canonical(op.op)
            if name in ("t", "numpy_T", "mT", "T", "adjoint"):
                flips = True
            elif name in ("transpose", "swapaxes", "swapdims"):
                rank = len(graph.tensors[op.inputs[0]].shape)
                dims = [op.attrs.get(k) for k in ("dim0", "dim1")]
                flips = None not in dims and {d % rank for d in dims} == {rank - 1, rank - 2}
            elif name == "permute":
                dims = list(op.attrs.get("dims", ()))
                flips = bool(dims) and dims[-1] % len(dims) != len(dims) - 1
            elif costs_of(graph)[op.name].kind == "view" and op.inputs:
                for out in op.outputs:
                    self.swapped[out] = self.swapped.get(op.inputs[0], False)
                continue
            else:
                continue
            for out in op.outputs:
                self.swapped[out] = self.swapped.get(op.inputs[0], False) ^ flips

    def strided(self, name: str) -> bool:
        """True when the last axis is not the contiguous one."""
        return self.swapped.get(name, False)


def product_dims(op: Op, graph: OpGraph) -> tuple[int, int, int, int, int, int] | None:
    """L, M, N, K of a product and the indices of its inputs A and B; None for any other contraction."""
    name = canonical(op.op)
    if name not in _PLAIN:
        return None
    ins, out = [graph.tensors[n] for n in op.inputs], graph.tensors[op.outputs[0]]
    a, b = (1, 2) if name in ("addmm", "baddbmm", "addmv", "addbmm") else (0, 1)
    x, y = ins[a], ins[b]
    k = x.shape[-1] if x.shape else 1
    if name == "linear":
        return 1, x.elements // max(1, k), y.shape[0] if len(y.shape) > 1 else 1, k, a, b
    if len(y.shape) <= 1:
        return 1, x.elements // max(1, k), 1, k, a, b
    if len(x.shape) <= 1:
        return 1, 1, y.shape[-1], k, a, b
    if len(y.shape) == 2:  # PyTorch folds A's leading axes into M
        return 1, x.elements // max(1, k), y.shape[-1], k, a, b
    return prod(out.shape[:-2]), x.shape[-2], y.shape[-1], k, a, b


def _matrix(op: Op, c: Cost, graph: OpGraph, hw: Hardware, cls: str, layout: _Layout) -> StageTime:
    ins, out = [graph.tensors[n] for n in op.inputs], graph.tensors[op.outputs[0]]
    name = canonical(op.op)
    dims = product_dims(op, graph)
    if dims is None:
        return _einsum_like(op, c, ins, out, hw, cls)
    l, m, n, k, a, b = dims  # noqa: E741
    bytes_ = DTYPE_BYTES[ins[a].dtype]
    if min(m, n) == 1:  # gemv: a stream of the matrix
        ms = LAUNCH_MS + c.bytes / (0.89 * hw.copy_rate) * 1e3
        return StageTime(
            op.name, "library", ms, "memory", {"launch": LAUNCH_MS, "main": ms - LAUNCH_MS}, c.matrix, c.bytes
        )
    p = Product(l, m, n, k, cls, bytes_, DTYPE_BYTES[out.dtype], extra_flops=1.0 if len(ins) > 2 else 0.0)
    time = library_product(p, hw)
    note, slow, slowed = "", 1.0, ""
    a_strided = layout.strided(op.inputs[a])
    b_strided = layout.strided(op.inputs[b]) ^ (name == "linear")  # linear's weight is stored [N, K]
    rows = (m if a_strided else k, k if b_strided else n)
    if cls in _MISALIGNED and any(r * bytes_ % 16 for r in rows):
        rate = _MISALIGNED[cls] * hw.peak(cls)
        slow = max(1.0, p.flops / rate * 1e3 / max(1e-9, time.main_ms))
        slowed, note = "unaligned", "rows not 16-byte aligned: the library falls back to slow kernels"
    elif cls == "tf32" and a_strided and not b_strided:
        slow, slowed, note = 1 / _TF32_BOTH_STRIDED, "strided", "tf32 with neither operand contiguous along K"
    main = time.main_ms * slow
    ms = time.ms - time.main_ms + main
    parts = {
        "launch": LAUNCH_MS,
        "fill": time.fill_ms,
        "main": main,
        "epilogue": time.epilogue_ms,
        "reduction": time.reduction_ms,
    }
    return StageTime(op.name, "library", ms, time.work_by, parts, c.flops, time.hbm_bytes, note, slowed)


def _einsum_like(op: Op, c: Cost, ins: list[Tensor], out: Tensor, hw: Hardware, cls: str) -> StageTime:
    """Any other contraction, priced as a product with the same FLOPs, first operand and result."""
    if len(ins) == 2 and min(t.elements for t in ins) and c.matrix:
        k = max(1, round(c.matrix / 2 / out.elements))
        m = max(1, ins[0].elements // k)
        n = max(1, out.elements // m)
        p = Product(1, m, n, k, cls, DTYPE_BYTES[ins[0].dtype], DTYPE_BYTES[out.dtype])
        t = library_product(p, hw)
        parts = {"launch": LAUNCH_MS, "main": t.ms - LAUNCH_MS}
        return StageTime(op.name, "library", t.ms, t.work_by, parts, c.flops, t.hbm_bytes)
    main = max(c.matrix / (0.5 * hw.ceiling(cls)), c.bytes / hw.copy_rate) * 1e3
    return StageTime(
        op.name, "library", LAUNCH_MS + main, "tensor", {"launch": LAUNCH_MS, "main": main}, c.flops, c.bytes
    )


def _conv(op: Op, c: Cost, graph: OpGraph, hw: Hardware, cls: str) -> StageTime:
    """Implicit GEMM at a share of the peak that grows with the channels, plus NCHW <-> NHWC on the tensor cores."""
    x, weight, out = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]], graph.tensors[op.outputs[0]]
    groups = int(op.attrs.get("groups", 1) or 1)
    name = canonical(op.op)
    transposed = "transpose" in name or bool(op.attrs.get("transposed", False))
    inner = weight.shape[0] // groups if transposed else weight.shape[1]
    outer = weight.shape[1] if transposed else weight.shape[0] // groups
    half = DTYPE_BYTES[x.dtype] == 2
    tensor_cores = cls not in ("f32", "f64") and inner >= 8 and outer >= 8
    pointwise = prod(weight.shape[2:]) == 1
    convert = 0.0
    if inner == 1:
        main, by = c.bytes / ((0.4 if half else 0.2) * hw.copy_rate) * 1e3, "memory"
    else:
        # An instruction takes 16 to 64 channels at once; fewer leave lanes empty. Exact kernels lose less.
        fill = min(1.0, inner / 32) ** 0.5 * min(1.0, outer / 128) ** 0.5
        share = _CONV_SHARE * (fill if tensor_cores else max(0.5, fill)) * (0.6 if transposed else 1.0)
        if tensor_cores:
            share *= (0.7 if len(weight.shape) == 5 else 1.0) * (0.75 if half else 1.0)
        tensor = c.matrix / (share * hw.peak(cls if tensor_cores else "f32")) * 1e3
        memory = c.bytes / (0.86 * hw.copy_rate) * 1e3
        main, by = max(tensor, memory), "tensor" if tensor > memory else "memory"
        if tensor_cores and not pointwise and x.layout != "channels_last":  # 1x1 is a plain product in any layout
            convert = 2 * (x.bytes + out.bytes) / ((0.45 if half else 0.75) * hw.copy_rate) * 1e3
    bias = 2 * out.bytes / (0.85 * hw.copy_rate) * 1e3 if len(op.inputs) > 2 else 0.0
    launches = 1 + 2 * (convert > 0) + (bias > 0)
    parts = {"launch": launches * LAUNCH_MS, "main": main, "layout": convert, "bias": bias}
    moved = c.bytes + (2 * (x.bytes + out.bytes) if convert else 0) + (2 * out.bytes if bias else 0)
    return StageTime(op.name, "library", sum(parts.values()), by, parts, c.flops, moved)


def _other(op: Op, c: Cost, graph: OpGraph, hw: Hardware, cls: str) -> StageTime:
    """A bandwidth-bound kernel; most norms read their input twice and have a cost per group."""
    name = canonical(op.op)
    read, written = sum(c.read.values()), c.write
    floor = 0.0
    launches = 1
    if c.kind == "norm" and "softmax" not in name:
        read += 0.0 if is_inference_batch_norm(name, op.attrs) else max(c.read.values(), default=0.0)
        x = graph.tensors[op.inputs[0]]
        if "group_norm" in name and len(x.shape) == 2:
            floor, launches = x.elements * FLAT_GROUP_NORM_NS * 1e-6, 3
        elif "group_norm" in name:
            groups = int(op.attrs.get("num_groups", op.attrs.get("group", 1)) or 1)
            floor, launches = x.shape[0] * groups * GROUP_NS * 1e-6, 3
        elif "instance_norm" in name:
            floor, launches = prod(x.shape[:2]) * GROUP_NS * 1e-6, 3
    elif name == "logsumexp":  # max, subtract and exp, sum, log: PyTorch has no single kernel for it
        x = max(c.read.values(), default=0.0)
        read, written, launches = 4 * x, 2 * x + written, 5
    compute = max(c.special / hw.sfu, c.vector / hw.peaks["f32"] * 2) * 1e3
    moved_ms = stream_ms(read, written, hw, launch_ms=0.0)
    main = max(moved_ms, compute, floor)
    by = "memory" if main == moved_ms else "special" if c.special else "vector"
    launch = LAUNCH_MS + (launches - 1) * (LAUNCH_MS - GAP_MS)  # its further launches overlap
    return StageTime(op.name, c.kind, launch + main, by, {"launch": launch, "main": main}, c.flops, read + written)


def attention_ms(matrix: float, special: float, bytes_: float, hw: Hardware, cls: str) -> float:
    """A flash-style attention kernel in ms: the FLOPs of both products, its exponentials, its traffic in bytes."""
    main = max(matrix / (_ATTENTION_SHARE * hw.peak(cls)), special / (0.8 * hw.sfu), bytes_ / hw.copy_rate)
    return LAUNCH_MS + main * 1e3


def _cast(t: Tensor, hw: Hardware, read: float) -> StageTime:
    """float32 to a 16-bit type (`read` 1) or back (`read` 0.5): 1.5 times the float32 bytes either way."""
    ms = stream_ms(t.bytes * read, t.bytes * (1.5 - read), hw)
    return StageTime(
        f"cast {t.name}", "cast", ms, "memory", {"launch": LAUNCH_MS, "main": ms - LAUNCH_MS}, 0.0, 1.5 * t.bytes
    )


def predict_eager(
    graph: OpGraph, hw: Hardware, cls: str, *, cast_inputs: bool = True, autocast: bool = False
) -> Attainable:
    """PyTorch eager in one precision class, kernels queued back to back.

    tf32 turns PyTorch's tf32 switches on. f16, bf16 and fp8 of a float32 module mean a module cast beforehand and
    `module(x.half()).float()`: it has the inputs and outputs of the programs that it is compared with, so these casts
    are timed. `cast_inputs=False`: inputs are cast already and outputs stay half. `autocast`: the float32 module under
    torch.autocast without its cache instead, as it is measured. fp8 products run at fp8 rates on bf16 storage. Raises
    HardwareError when the device has no such class.
    """
    hw.peak(cls)
    notes: list[str] = []
    before: list[StageTime] = []
    after: list[StageTime] = []
    if native_class(graph) == "f32" and cls in ("f16", "bf16", "fp8"):
        half = "f16" if cls == "f16" else "bf16"
        if not autocast and cast_inputs:
            before = [_cast(graph.tensors[n], hw, 1.0) for n in graph.inputs if graph.tensors[n].dtype == "f32"]
            after = [_cast(graph.tensors[n], hw, 0.5) for n in graph.outputs if graph.tensors[n].dtype == "f32"]
        graph = under_autocast(graph, half) if autocast else recast(graph, half)
    stages = list(before)
    layout, in_place = _Layout(graph), parts_in_place(graph)
    for op in graph.ops:
        c = costs_of(graph)[op.name]
        name = canonical(op.op)
        if c.kind in ("view", "none") or not op.outputs:
            continue
        if op.name in in_place:
            if not is_done_by_its_source(op):
                moved = in_place[op.name] * DTYPE_BYTES[graph.tensors[op.outputs[0]].dtype]
                ms = stream_ms(moved, moved, hw)
                parts = {"launch": LAUNCH_MS, "main": ms - LAUNCH_MS}
                stages.append(StageTime(op.name, c.kind, ms, "memory", parts, c.flops, 2 * moved))
            continue
        if name == "contiguous" and not layout.strided(op.inputs[0]):
            continue
        if name.removesuffix("_cell") in LIBRARY_US:
            stage = library_time(op, c, graph)
        elif c.kind == "matrix":
            stage = _matrix(op, c, graph, hw, cls, layout)
        elif c.kind == "conv":
            stage = _conv(op, c, graph, hw, cls)
        elif c.kind == "attention":
            main = attention_ms(c.matrix, c.special, c.bytes, hw, cls) - LAUNCH_MS
            parts = {"launch": LAUNCH_MS, "main": main}
            stage = StageTime(op.name, "library", sum(parts.values()), "tensor", parts, c.flops, c.bytes)
        else:
            stage = _other(op, c, graph, hw, cls)
        if stage.note:
            notes.append(f"{op.name}: {stage.note}")
        stages.append(stage)
    if not stages:
        return Attainable(LAUNCH_MS, (), "launch", ("the module moves no data: it only takes views",))
    stages = queued([*stages, *after])
    longest = max(stages, key=lambda s: s.ms)
    return Attainable(sum(s.ms for s in stages), stages, longest.bound_by, tuple(notes))
