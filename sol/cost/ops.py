"""The cost of one operation, from its ATen name and shapes: matrix FLOPs, vector FLOPs, special functions, bytes.

Conventions of every rule:
* a multiply-add of a product is 2 FLOPs (the convention of data sheets and of torch.utils.flop_counter);
* convolutions count every tap, on padding too, as torch.utils.flop_counter does; `needed` (from `sol.cost.needed`)
  is the part of a product's FLOPs that no kernel can skip, and bounds use it;
* vector FLOPs are the least that the vector pipes must do; `special` counts results of the special-function
  units (exp2, log2, rcp, rsqrt, tanh: 16 a clock and SM, CUDA C++ Programming Guide, "Arithmetic instructions");
* bytes: each distinct input read once, each output written once; a gather reads at most the rows it takes.
An operation without a rule is priced by its bytes alone and has `kind == "bytes"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log2

from sol.cost.cost import Cost, Work, canonical
from sol.cost.needed import contraction, convolution, pooled, triangle_elements
from sol.cost.op_table import (
    BATCH_NORM_TRAINS,
    COPIES,
    EXACT_POWERS,
    GATHERS,
    MAY_COPY,
    NORMS,
    NOTHING,
    OVERWRITES,
    POINTWISE,
    POOLS,
    REDUCTIONS,
    SHAPED_LIKE,
    SOURCES,
    SUBSETS,
    UPSAMPLE,
    VIEWS,
    is_inference_batch_norm,
)
from sol.cost.products import ATTENTION, CONVOLUTIONS, RULES, einsum_terms
from sol.graph import DTYPE_BYTES, Op, Tensor

# Real operations in one complex operation, where they are not the two of an addition.
_COMPLEX = {"mul": 6.0, "div": 11.0, "reciprocal": 7.0, "addcmul": 8.0, "square": 6.0, "abs": 3.0}

# What a rule raises for arguments that it does not expect: an overload with others, or a graph that a module forged.
_UNEXPECTED = (IndexError, TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, OverflowError)


def _priced(name: str, w: Work) -> tuple[str, float, float, float]:
    out = float(w.outs[0].elements) if w.outs else 0.0
    big = float(max((t.elements for t in w.ins), default=0))
    if name in RULES:
        return RULES[name](w)
    if name in ("max", "min") and len(w.ins) == 2:
        return "pointwise", 0, out, 0
    if name == "dropout" and not w.attr("train", "training", default=False):
        return "view", 0, 0, 0
    if name in POINTWISE:
        flops, special = POINTWISE["gelu_tanh"] if _is_gelu_tanh(name, w) else POINTWISE[name]
        if name == "div" and len(w.ins) == 1:  # by a constant: a multiplication by its reciprocal
            flops, special = 1, 0
        exponent = w.attr("exponent")
        if name in EXACT_POWERS and isinstance(exponent, int | float):
            flops, special = EXACT_POWERS[name].get(exponent, (flops, special))
        return "pointwise", 0, flops * out, special * out
    if name in REDUCTIONS:
        flops, special = REDUCTIONS[name]
        return "reduction", 0, flops * big, special * big
    if name in BATCH_NORM_TRAINS:
        return "norm", 0, (2 if is_inference_batch_norm(name, w.op.attrs) else 5) * out, 0
    if name == "instance_norm" and not w.attr("use_input_stats", default=True):
        return "norm", 0, 2 * out, 0
    if name in NORMS:
        flops, special = NORMS[name]
        return "norm", 0, flops * out, special * out
    if name in POOLS:  # overlapping windows can share sums and comparisons: one use per element is certain
        return "pool", 0, max(out, float(pooled(w.op, w.ins[0], w.out))), 0
    if name in UPSAMPLE:
        return "pool", 0, 8 * out, 0
    if name in GATHERS:
        return "gather", 0, 0, 0
    if name in VIEWS:
        return ("copy" if name in MAY_COPY and not _viewable(w.ins[0], w.out) else "view"), 0, 0, 0
    if name in ("sort", "argsort", "msort", "topk", "kthvalue", "median", "nanmedian"):
        return "reduction", 0, big * _comparisons(name, w), 0
    if name in COPIES or name in SOURCES:
        return "copy", 0, 0, 0
    if name in NOTHING:
        return "none", 0, 0, 0
    return "bytes", 0, 0, 0


def _comparisons(name: str, w: Work) -> float:
    """Comparisons per element: log2 of the row's length for a sort, one for a selection."""
    shape = w.ins[0].shape
    if "sort" not in name or not shape:
        return 1.0
    return max(1.0, log2(max(1, shape[int(w.attr("dim", default=-1) or 0) % len(shape)])))


def _viewable(source: Tensor, out: Tensor) -> bool:
    """Return True if a reshape moves no data. As in torch's computeStride, axes that are contiguous may be regrouped.

    Tensors without recorded strides count as contiguous, so their reshapes are views.
    """
    if not source.strides or len(source.strides) != len(source.shape) or source.elements <= 1:
        return True
    sizes = [(n, s) for n, s in zip(source.shape, source.strides, strict=True) if n != 1]
    chunks: list[int] = []  # lengths of runs of axes that are contiguous in memory
    for i, (n, s) in enumerate(sizes):
        if i and sizes[i - 1][1] == n * s:
            chunks[-1] *= n
        else:
            chunks.append(n)
    left = [n for n in out.shape if n != 1]
    for length in chunks:
        size = 1
        while size < length and left:
            size *= left.pop(0)
        if size != length:
            return False
    return not left


def _is_gelu_tanh(name: str, w: Work) -> bool:
    return name == "gelu" and w.attr("approximate", default="none") == "tanh"


def cost(op: Op, tensors: Mapping[str, Tensor]) -> Cost:
    """The cost of one op of a graph. Never raises: an op that no rule can price costs its bytes."""
    w = Work(op, tuple(tensors[n] for n in op.inputs), tuple(tensors[n] for n in op.outputs))
    name = canonical(op.op)
    try:
        kind, matrix, vector, special = _priced(name, w)
        needed = _needed(name, w, matrix)
    except _UNEXPECTED:
        kind, matrix, vector, special, needed = "bytes", 0.0, 0.0, 0.0, None
    if kind in ("view", "none"):
        return Cost(kind)
    if any(t.complex for t in (*w.ins, *w.outs)):  # a complex multiply-add is four real ones
        matrix, vector = 4 * matrix, vector * _COMPLEX.get(name, 2.0)
        needed = None if needed is None else 4 * needed
    read = {n: touched(op, tensors[n], tensors) * DTYPE_BYTES[tensors[n].dtype] for n in dict.fromkeys(op.inputs)}
    if name in SOURCES:
        read = {}
    write = float(sum(t.bytes for t in w.outs))
    return Cost(kind, float(matrix), float(vector), float(special), read, write, needed)


def _needed(name: str, w: Work, matrix: float) -> float | None:
    """The FLOPs of a single op that no kernel can skip; None when that is all of them."""
    least = matrix
    if name in CONVOLUTIONS and len(w.ins) > 1 and len(w.ins[1].shape) > 2:
        least = convolution(w.op, w.ins[0], w.ins[1], w.out, _transposed(name, w.op))[0]
    elif name == "einsum" and len(w.ins) > 2 and (known := einsum_terms(w)) is not None:
        least = contraction(*known)
    return least if least < matrix else None


def _transposed(name: str, op: Op) -> bool:
    return "transpose" in name or bool(op.attrs.get("transposed", False))


def touched(op: Op, tensor: Tensor, tensors: Mapping[str, Tensor]) -> int:
    """The least number of elements of an input that the op has to read: a gather or a slice reads a part."""
    try:
        return min(tensor.elements, _touched(op, tensor, tensors))
    except _UNEXPECTED:
        return tensor.elements


def _touched(op: Op, tensor: Tensor, tensors: Mapping[str, Tensor]) -> int:
    name = canonical(op.op)
    if name in GATHERS or name in SUBSETS:
        elements = sum(tensors[n].elements for n in op.outputs)
        source = op.inputs[1] if name.startswith("embedding") and _table_second(op, tensors) else op.inputs[0]
        if tensor.name == source:
            return elements
    elif name in SHAPED_LIKE and tensor.name != op.inputs[0]:
        return 0
    elif tensor.name == op.inputs[0]:
        out = tensors[op.outputs[0]]
        if name in CONVOLUTIONS and len(op.inputs) > 1 and len(tensors[op.inputs[1]].shape) > 2:
            return convolution(op, tensor, tensors[op.inputs[1]], out, _transposed(name, op))[1]
        if name in POOLS:
            return pooled(op, tensor, out)
        if name in ("tril", "triu") and len(tensor.shape) > 1:
            return triangle_elements(op, tensor)
        if name in UPSAMPLE or "upsample_nearest" in name:
            return min(tensor.elements, int(out.elements * min(UPSAMPLE.get(name, 1), tensor.elements)))
        if name in OVERWRITES and len(op.inputs) == 2 and op.inputs[0] != op.inputs[1]:
            over = out if name == "copy" else tensors[op.inputs[1]]
            return tensor.elements - over.elements
        if "pad" in name and name in COPIES:  # a negative padding crops
            return out.elements
    elif name in ATTENTION and tensor.name in op.inputs[1:3] and op.attrs.get("is_causal"):
        rows, keys = tensors[op.inputs[0]].shape[-2], tensor.shape[-2]  # no row attends to a key behind the last row
        return tensor.elements * min(rows, keys) // max(1, keys)
    return tensor.elements


def _table_second(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """Return True if an embedding has its table second, as torch.nn.functional does; ATen has it first."""
    return len(op.inputs) > 1 and not tensors[op.inputs[0]].dtype.startswith(("f", "bf"))


def bytes_only(ops: Iterable[Op], tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of the operations without a rule, which are priced by bytes alone and listed in the report."""
    return tuple(dict.fromkeys(canonical(o.op) for o in ops if cost(o, tensors).kind == "bytes"))
