"""The least that a module must do, where it is less than what PyTorch does and its FLOP counter counts.

A bound that counts work which a kernel may leave out is no bound. Left out are, from shapes and arguments alone:
taps of a convolution that fall on its padding or outside its result; parts of a product that nothing reads, since a
`tril`, `triu` or slice follows; products with the zeros of a `tril`, `triu` or `diag` that feeds it; dear orders of an
einsum of several factors. Not considered: other algorithms (Winograd, FFT, Strassen) and algebra across operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any

from sol.cost.cost import Cost
from sol.cost.op_table import SUBSETS, VIEWS
from sol.graph import Op, OpGraph, Tensor

_TRIANGLES, _DIAGONALS = ("tril", "triu"), ("diag", "diag_embed")
_LONGEST_EINSUM = 8  # factors; orders of more are not searched

# ---- windows: convolutions and pools --------------------------------------------------------------------------


def _each(value: Any, dims: int, default: int) -> list[int]:
    """An argument that may be one number, a list of one, or one a spatial axis."""
    if value is None or value == []:
        return [default] * dims
    if isinstance(value, int):
        return [value] * dims
    return [int(v) for v in value] if len(value) == dims else [int(value[0])] * dims


def _taps(steps: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[tuple[int, int, int]]:
    """Along one axis, for each tap t the range of steps o (of `steps`) with 0 <= o * stride - padding + t * dilation
    < size, and the place that the first of them reads: (first, count, place)."""
    found = []
    for t in range(kernel):
        shift = t * dilation - padding
        first, last = max(0, -(shift // stride)), min(steps - 1, (size - 1 - shift) // stride)
        if last >= first:
            found.append((first, last - first + 1, first * stride + shift))
    return found


@lru_cache(maxsize=4096)
def _valid(steps: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple[int, int]:
    """Along one axis: pairs of a step and a tap that meet inside, and how many distinct places they read."""
    taps = _taps(steps, size, kernel, stride, padding, dilation)
    runs: dict[int, list[tuple[int, int]]] = {}  # places of one remainder are runs of neighbours
    for _, count, place in taps:
        runs.setdefault(place % stride, []).append((place // stride, place // stride + count))
    places = 0
    for some in runs.values():
        end = None
        for low, high in sorted(some):
            places += max(0, high - (low if end is None else max(low, end)))
            end = high if end is None else max(end, high)
    return sum(count for _, count, _ in taps), places


def _windows(x: Sequence[int], out: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Any], back: bool):
    """Axis by axis (pairs, places) of a window that slides over x, or (`back`) from x over the result."""
    dims = len(kernel)
    stride = _each(attrs.get("stride"), dims, 1)
    dilation = _each(attrs.get("dilation"), dims, 1)
    padding = attrs.get("padding")
    if isinstance(padding, str):  # "same": the odd one is behind; "valid": none
        around = [d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)]
        padding = around if padding == "same" else 0
    padding = _each(padding, dims, 0)
    for i in range(dims):
        steps, size = (x[i], out[i]) if back else (out[i], x[i])
        if back:  # places are those of x, each of which is a step
            taps = _taps(steps, size, kernel[i], stride[i], padding[i], dilation[i])
            low, high = min((t[0] for t in taps), default=0), max((t[0] + t[1] for t in taps), default=0)
            yield sum(t[1] for t in taps), high - low
        else:
            yield _valid(steps, size, kernel[i], stride[i], padding[i], dilation[i])


def convolution(op: Op, x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> tuple[float, int]:
    """The FLOPs of the taps that meet real elements, and how many elements of x they read."""
    dims = len(weight.shape) - 2
    spatial, result = x.shape[len(x.shape) - dims :], out.shape[len(out.shape) - dims :]
    axes = list(_windows(spatial, result, weight.shape[2:], op.attrs, transposed))
    channels = (x if transposed else out).elements // max(1, prod(spatial if transposed else result))
    pairs, places = prod(a[0] for a in axes), prod(a[1] for a in axes)
    return 2.0 * channels * weight.shape[1] * pairs, x.elements // max(1, prod(spatial)) * places


def pooled(op: Op, x: Tensor, out: Tensor) -> int:
    """How many elements of x a pool reads: a stride longer than its window passes some by."""
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
    """Matrix FLOPs of an einsum in its cheapest order of pairs: 2 x the product of every index of a pair that sums
    some, none of a pair that sums nothing. Indices of one factor alone are summed beforehand. Infinite where there
    are too many factors to look at every order."""
    if len(terms) > _LONGEST_EINSUM:
        return float("inf")
    everyone = frozenset(range(len(terms)))

    def left(some: frozenset[int]) -> frozenset[str]:
        """What indices remain when these factors are one."""
        outside = out.union(*(terms[i] for i in everyone - some))
        return frozenset().union(*(terms[i] for i in some)) & outside

    best: dict[frozenset[int], float] = {frozenset([i]): 0.0 for i in everyone}
    for count in range(2, len(terms) + 1):
        for some in map(frozenset, combinations(sorted(everyone), count)):
            costs = []
            first = min(some)
            for k in range(count - 1):
                for others in combinations(sorted(some - {first}), k):
                    a = frozenset({first, *others})
                    span = left(a) | left(some - a)
                    own = 2.0 * prod(size[c] for c in span) if span - left(some) else 0.0
                    costs.append(best[a] + best[some - a] + own)
            best[some] = min(costs)
    return best[everyone]


# ---- parts of products ----------------------------------------------------------------------------------------


def _below(rows: int, columns: int, shift: int) -> int:
    """The sum over the rows i of i + shift, held between 0 and the number of columns."""
    first, full = min(rows, max(0, -shift)), min(rows, max(0, columns - shift))
    ramp = (first + full - 1 + 2 * shift) * (full - first) // 2 if full > first else 0
    return ramp + (rows - max(first, full)) * columns


def kept(op: Op, t: Tensor) -> int:
    """How many elements a tril or triu of t keeps."""
    rows, columns = t.shape[-2:]
    d = int(op.attrs.get("diagonal", 0) or 0)
    one = rows * columns - _below(rows, columns, d) if op.op.startswith("triu") else _below(rows, columns, d + 1)
    return t.elements // max(1, rows * columns) * one


def _zeros(name: str, graph: OpGraph) -> float:
    """The share of a tensor's elements that are zero whatever the inputs are."""
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
        return 1 - kept(op, t) / t.elements
    wide = len(t.shape) > len(source.shape)  # diag of a matrix takes its diagonal: no zeros
    return 1 - source.elements / t.elements if wide else 0.0


def shares(graph: OpGraph, costs: Mapping[str, Cost]) -> dict[str, float]:
    """Product -> the share of its FLOPs that the outputs depend on, for those where it is below 1."""
    need: dict[str, float] = dict.fromkeys(graph.outputs, 1.0)  # tensor -> share of its elements that is read
    parts: dict[str, set[str]] = {}  # tensor -> reads of a part of it that were counted
    for op in reversed(graph.live):
        kind = costs[op.name].kind
        outs = [graph.tensors[n] for n in op.outputs]
        of_outs = max((need.get(n, 0.0) for n in op.outputs), default=0.0)
        for name in dict.fromkeys(op.inputs):
            t = graph.tensors[name]
            take, part = 1.0, ""
            if op.op in _TRIANGLES and t.elements:
                take, part = min(of_outs, kept(op, t) / t.elements), f"{op.op} {op.attrs}"
            elif op.op in SUBSETS and t.elements:
                got = sum(need.get(o.name, 0.0) * o.elements for o in outs)
                take, part = got / t.elements, f"{op.op} {op.attrs}"
            elif (kind == "pointwise" or op.op in VIEWS) and outs and outs[0].elements == t.elements:
                take = of_outs
            if part and part in parts.setdefault(name, set()):
                need[name] = max(need[name], take)  # the same part once more
            else:
                parts.setdefault(name, set()).add(part)
                need[name] = min(1.0, need.get(name, 0.0) + take)
    found = {}
    for op in graph.live:
        if costs[op.name].kind not in ("matrix", "conv"):
            continue
        share = need.get(op.outputs[0], 1.0) if len(op.outputs) == 1 else 1.0
        if costs[op.name].kind == "matrix" and op.inputs:
            # What two kinds of zeros leave out together is at most the sum of what each does.
            share = max(0.0, share - sum(_zeros(n, graph) for n in op.inputs))
        if share < 1.0:
            found[op.name] = share
    return found
