"""Work that no kernel can skip, where it is less than the work that PyTorch's FLOP counter counts.

A lower bound must not count work that a kernel may skip. From shapes and arguments alone, these functions leave out:
taps of a convolution that fall on its padding or outside its result; parts of a product that nothing reads because a
`tril`, `triu`, slice or constant mask follows; products with the zeros of an operand that comes from `tril`, `triu`,
`diag` or a masked softmax; all but the cheapest order of an einsum. Other algorithms (Winograd, FFT, Strassen) and
algebra across operations (`sol.algebra`) are not considered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

from sol.cost.cost import Cost
from sol.cost.masks import is_mask, probability_share
from sol.cost.op_table import SUBSETS, VIEWS
from sol.cost.windows import Window
from sol.graph import Op, OpGraph, Tensor

_TRIANGLES, _DIAGONALS = ("tril", "triu"), ("diag", "diag_embed")
LONGEST_EINSUM = 8  # factors; the orders of longer ones are not searched

# ---- windows: convolutions and pools --------------------------------------------------------------------------


def _each(value: Any, dims: int, default: int) -> list[int]:
    """One number for each spatial axis, from an argument that may be a number, a list of one or such a list."""
    if value is None or value == []:
        return [default] * dims
    if isinstance(value, int):
        return [value] * dims
    return [int(v) for v in value] if len(value) == dims else [int(value[0])] * dims


def _windows(x: Sequence[int], out: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Any], back: bool):
    """Yield (pairs, places) for each axis of a window that slides over x or, with `back`, over the result."""
    dims = len(kernel)
    stride = _each(attrs.get("stride"), dims, 1)
    dilation = _each(attrs.get("dilation"), dims, 1)
    padding = attrs.get("padding")
    if isinstance(padding, str):  # "same" pads the end more when the sum is odd; "valid" pads nothing
        around = [d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)]
        padding = around if padding == "same" else 0
    padding = _each(padding, dims, 0)
    for i in range(dims):
        steps, size = (x[i], out[i]) if back else (out[i], x[i])
        window = Window(steps, size, kernel[i], stride[i], padding[i], dilation[i])
        yield window.pairs(), window.reach() if back else window.places()  # with `back`, the steps are elements of x


def convolution(op: Op, x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> tuple[float, int]:
    """Return the FLOPs of the taps that are not on padding, and the number of elements of x that they read."""
    dims = len(weight.shape) - 2
    spatial, result = x.shape[len(x.shape) - dims :], out.shape[len(out.shape) - dims :]
    axes = list(_windows(spatial, result, weight.shape[2:], op.attrs, transposed))
    channels = (x if transposed else out).elements // max(1, prod(spatial if transposed else result))
    pairs, places = prod(a[0] for a in axes), prod(a[1] for a in axes)
    return 2.0 * channels * weight.shape[1] * pairs, x.elements // max(1, prod(spatial)) * places


def pooled(op: Op, x: Tensor, out: Tensor) -> int:
    """The number of elements of x that a pool reads: a stride longer than its window skips some."""
    kernel = op.attrs.get("kernel_size")
    if kernel is None:  # an adaptive pool reads everything
        return x.elements
    dims = next((d for d in (1, 2, 3) if f"{d}d" in op.op), 1)
    kernel = _each(kernel, dims, 1)
    attrs = dict(op.attrs) | {"stride": op.attrs.get("stride") or kernel}
    spatial = x.shape[len(x.shape) - dims :]
    axes = _windows(spatial, out.shape[len(out.shape) - dims :], kernel, attrs, False)
    return x.elements // max(1, prod(spatial)) * prod(a[1] for a in axes)


# ---- contractions ---------------------------------------------------------------------------------------------


def contraction(terms: Sequence[frozenset[str]], out: frozenset[str], size: Mapping[str, int]) -> float:
    """Matrix FLOPs of an einsum that is contracted pair by pair in the cheapest order.

    A pair that sums over an index costs 2 x the product of the sizes of all its indices, any other pair nothing.
    Indices of one factor alone are summed beforehand. Return infinity for more than `LONGEST_EINSUM` factors.
    """
    if len(terms) > LONGEST_EINSUM:
        return float("inf")
    factors = frozenset(range(len(terms)))

    def left(subset: frozenset[int]) -> frozenset[str]:
        """The indices that remain after these factors are contracted into one."""
        outside = out.union(*(terms[i] for i in factors - subset))
        return frozenset().union(*(terms[i] for i in subset)) & outside

    best: dict[frozenset[int], float] = {frozenset([i]): 0.0 for i in factors}
    for count in range(2, len(terms) + 1):
        for subset in map(frozenset, combinations(sorted(factors), count)):
            costs = []
            first = min(subset)
            for k in range(count - 1):
                for others in combinations(sorted(subset - {first}), k):
                    a = frozenset({first, *others})
                    span = left(a) | left(subset - a)
                    own = 2.0 * prod(size[c] for c in span) if span - left(subset) else 0.0
                    costs.append(best[a] + best[subset - a] + own)
            best[subset] = min(costs)
    return best[factors]


# ---- parts of products ----------------------------------------------------------------------------------------


def _below(rows: int, columns: int, shift: int) -> int:
    """The sum of i + shift over the rows i, each clamped to [0, columns]."""
    first, full = min(rows, max(0, -shift)), min(rows, max(0, columns - shift))
    ramp = (first + full - 1 + 2 * shift) * (full - first) // 2 if full > first else 0
    return ramp + (rows - max(first, full)) * columns


def triangle_elements(op: Op, t: Tensor) -> int:
    """The number of elements that a tril or triu of t keeps."""
    rows, columns = t.shape[-2:]
    d = int(op.attrs.get("diagonal", 0) or 0)
    in_one = rows * columns - _below(rows, columns, d) if op.op.startswith("triu") else _below(rows, columns, d + 1)
    return t.elements // max(1, rows * columns) * in_one


def _zeros(name: str, graph: OpGraph) -> float:
    """The share of a tensor's elements that are zero for all inputs."""
    if (masked := probability_share(name, graph)) < 1:
        return 1 - masked
    op = graph.producer.get(name)
    while op is not None and op.inputs and op.op not in (*_TRIANGLES, *_DIAGONALS):
        if op.op not in ("t", "transpose", "mT", "numpy_T", "T", "contiguous", "to", "_to_copy", "neg"):
            return 0.0
        op = graph.producer.get(op.inputs[0])
    if op is None or not op.inputs:
        return 0.0
    t, source = graph.tensors[op.outputs[0]], graph.tensors[op.inputs[0]]
    if not t.elements:
        return 0.0
    if op.op in _TRIANGLES:
        return 1 - triangle_elements(op, t) / t.elements
    wide = len(t.shape) > len(source.shape)  # diag of a matrix takes its diagonal: no zeros
    return 1 - source.elements / t.elements if wide else 0.0


def shares(graph: OpGraph, costs: Mapping[str, Cost]) -> dict[str, float]:
    """Product -> the share of its FLOPs that the outputs depend on, for products where it is below 1."""
    need: dict[str, float] = dict.fromkeys(graph.outputs, 1.0)  # tensor -> share of its elements that is read
    parts: dict[str, set[str]] = {}  # tensor -> its parts that are counted already
    for op in reversed(graph.live):
        kind = costs[op.name].kind
        outs = [graph.tensors[n] for n in op.outputs]
        of_outs = max((need.get(n, 0.0) for n in op.outputs), default=0.0)
        own = f"{op.op} {op.attrs}" if op.op in _TRIANGLES or op.op in SUBSETS else ""
        for name in dict.fromkeys(op.inputs):
            t = graph.tensors[name]
            take, part = 1.0, ""
            if op.op in _TRIANGLES and t.elements:
                take, part = min(of_outs, triangle_elements(op, t) / t.elements), own
            elif op.op in SUBSETS and t.elements:
                elements = sum(need.get(o.name, 0.0) * o.elements for o in outs)
                take, part = elements / t.elements, own
            elif (kind == "pointwise" or op.op in VIEWS) and outs and outs[0].elements == t.elements:
                take = of_outs if is_mask(op, name, graph) else min(of_outs, op.unmasked)
            if part and part in parts.setdefault(name, set()):
                need[name] = max(need[name], take)  # the same part again
            else:
                parts.setdefault(name, set()).add(part)
                need[name] = min(1.0, need.get(name, 0.0) + take)
    result = {}
    for op in graph.live:
        if costs[op.name].kind not in ("matrix", "conv"):
            continue
        share = need.get(op.outputs[0], 1.0) if len(op.outputs) == 1 else 1.0
        if costs[op.name].kind == "matrix" and op.inputs:
            # If both operands have zeros, the skipped products are at most the sum of both shares.
            share = max(0.0, share - sum(_zeros(n, graph) for n in op.inputs))
        if share < 1.0:
            result[op.name] = share
    return result
