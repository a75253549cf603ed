"""Rules of cost for matrix products, convolutions, attention and recurrent layers.

A rule takes a `Work` and returns (kind, matrix FLOPs, vector FLOPs, special-function results). The conventions are
those of `sol.cost.ops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from math import prod

from sol.cost.cost import Work
from sol.cost.needed import LONGEST_EINSUM, contraction

Rule = Callable[[Work], tuple[str, float, float, float]]  # kind, matrix, vector, special
RULES: dict[str, Rule] = {}
_LONGEST_CHAIN = 100  # products of matrices whose order is searched, in steps that grow with the third power


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        for name in names:
            RULES[name] = fn
        return fn

    return register


@rule("linear")
def _linear(w: Work):
    bias = w.out.elements if len(w.ins) > 2 else 0
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], bias, 0


@rule("mm", "bmm", "matmul", "mv", "dot", "vdot", "inner", "_int_mm")
def _matmul(w: Work):
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], 0, 0


@rule("chain_matmul", "linalg_multi_dot")
def _chain(w: Work):
    """The cheapest order of the products, which PyTorch takes too. It depends on the shapes alone."""
    shapes = [t.shape for t in w.ins]
    dims = [
        *(s[0] if len(s) > 1 or i else 1 for i, s in enumerate(shapes)),
        shapes[-1][1] if len(shapes[-1]) > 1 else 1,
    ]
    if len(shapes) > LONGEST_EINSUM:
        return "matrix", _ordered(dims), 0, 0
    terms = [frozenset((str(i), str(i + 1))) for i in range(len(shapes))]
    out = frozenset(("0", str(len(shapes))))
    return "matrix", contraction(terms, out, {str(i): d for i, d in enumerate(dims)}), 0, 0


def _ordered(dims: list[int]) -> float:
    """The FLOPs of a long chain of products in its cheapest order, for factor i of dims[i] x dims[i + 1]. Beyond
    `_LONGEST_CHAIN` factors the least that any order takes: each inner axis is summed once."""
    count = len(dims) - 1
    if count > _LONGEST_CHAIN:
        return 2.0 * dims[0] * dims[-1] * min(dims[1:-1])
    best = {(i, i + 1): 0.0 for i in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            best[i, j] = min(best[i, k] + best[k, j] + 2.0 * dims[i] * dims[k] * dims[j] for k in range(i + 1, j))
    return best[0, count]


@rule("_scaled_mm")
def _scaled(w: Work):
    """Two fp8 matrices with scales (one number, or one per row and column): two multiplications per result."""
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], 2.0 * w.out.elements, 0


@rule("_grouped_mm")
def _grouped(w: Work):
    """[T, K] rows, each multiplied by one of E matrices of [E, K, N]."""
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], 0, 0


@rule("addmm", "baddbmm", "addmv")
def _addmm(w: Work):
    return "matrix", 2.0 * w.out.elements * w.ins[1].shape[-1], w.out.elements, 0


@rule("addbmm")
def _addbmm(w: Work):
    batch, _, k = w.ins[1].shape
    return "matrix", 2.0 * w.out.elements * k * batch, w.out.elements, 0


@rule("bilinear")
def _bilinear(w: Work):
    rows = w.out.elements // w.out.shape[-1]
    o, i, j = w.ins[2].shape
    return "matrix", 2.0 * rows * o * j * i + 2.0 * rows * o * j, 0, 0


def einsum_terms(w: Work) -> tuple[list[frozenset[str]], frozenset[str], dict[str, int]] | None:
    """An einsum's factors, its result and the size of every index; None for an equation that we cannot parse."""
    equation = str(w.attr("equation", default="")).replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if not left or len(terms) != len(w.ins):
        return None
    if not arrow:
        once = "".join(sorted(c for c in set(left) - {",", "."} if left.count(c) == 1))
        out = ("..." if "..." in left else "") + once
    # "..." stands for the remaining axes of a factor, aligned at the right. Digits name them; the last axis is 0.
    rests = [len(t.shape) - len(term.replace("...", "")) for term, t in zip(terms, w.ins, strict=True)]
    terms = [t.replace("...", "".join(map(str, reversed(range(n))))) for t, n in zip(terms, rests, strict=True)]
    out = out.replace("...", "".join(map(str, reversed(range(max(rests))))))
    size: dict[str, int] = {}
    for term, t in zip(terms, w.ins, strict=True):
        if len(term) != len(t.shape):
            return None
        size |= {c: max(n, size.get(c, 1)) for c, n in zip(term, t.shape, strict=True)}
    return [frozenset(t) for t in terms], frozenset(out), size


@rule("einsum")
def _einsum(w: Work):
    """Pairs contracted left to right. A pair costs 2 x the product of the sizes of its indices, 1 x if it sums
    nothing. Indices of one factor alone are summed beforehand."""
    known = einsum_terms(w)
    if known is None:
        k = w.ins[0].shape[-1] if w.ins and w.ins[0].shape else 1
        return "matrix", 2.0 * w.out.elements * k, 0, 0
    terms, out, size = known
    matrix = vector = 0.0
    left: list[frozenset[str]] = []
    among = Counter(c for term in terms for c in term)
    for term in terms:
        keep = frozenset(c for c in term if c in out or among[c] > 1)
        vector += float(prod(size[c] for c in term)) if term - keep else 0.0
        left.append(keep)
    if len(terms) == 1:
        return ("reduction" if vector else "view"), 0, vector, 0
    indices = left[0]
    later = [*accumulate(reversed(left), frozenset.union, initial=out)][::-1]  # what is read from each factor on
    for i, term in enumerate(left[1:], 1):
        span = indices | term
        indices = span & later[i + 1]
        work = float(prod(size[c] for c in span))
        if span - indices:
            matrix += 2 * work
        else:
            vector += work
    return ("matrix" if matrix else "pointwise"), matrix, vector, 0


@rule("tensordot")
def _tensordot(w: Work):
    a, b = w.ins[0].elements, w.ins[1].elements
    k = (a * b / max(1, w.out.elements)) ** 0.5  # a = M K, b = K N, out = M N
    return "matrix", 2.0 * w.out.elements * k, 0, 0


def _conv(w: Work, transposed: bool):
    x, weight = w.ins[0], w.ins[1]
    bias = w.out.elements if len(w.ins) > 2 else 0
    # weight is [out, in/groups, *kernel], and for a transposed one [in, out/groups, *kernel]
    positions = x.elements if transposed else w.out.elements
    return "conv", 2.0 * positions * prod(weight.shape[1:]), bias, 0


CONVOLUTIONS = frozenset(
    ("convolution", "_convolution", *(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)))
)


@rule("conv1d", "conv2d", "conv3d")
def _conv_forward(w: Work):
    return _conv(w, False)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transposed(w: Work):
    return _conv(w, True)


@rule("convolution", "_convolution")
def _convolution(w: Work):
    return _conv(w, bool(w.attr("transposed", default=False)))


ATTENTION = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
)


@rule(*ATTENTION)
def _attention(w: Work):
    """Two products and one exp a score. Under a causal mask, row i of L has min(i + 1, S) scores: PyTorch aligns the
    mask at the upper left, whatever the lengths. A constant mask leaves its share of the scores."""
    q, k, v = w.ins[:3]
    rows, keys = q.shape[-2], k.shape[-2]
    scores = float(rows * keys)
    if w.attr("is_causal", default=False):
        full = min(rows, keys)
        scores = full * (full + 1) / 2 + (rows - full) * keys
    scores *= w.op.unmasked * prod(q.shape[:-2])
    return "attention", 2 * scores * (q.shape[-1] + v.shape[-1]), 4 * scores, scores


@rule("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _recurrent(w: Work):
    """Each step of each sequence is multiplied by every weight matrix; the gates are special functions."""
    steps = prod(w.ins[0].shape[:-1])
    matrices = [t for t in w.ins[1:] if t.kind in ("parameter", "buffer") and len(t.shape) == 2]
    gates = sum(t.shape[0] for t in matrices) / 2
    return "matrix", 2.0 * steps * sum(t.elements for t in matrices), 4.0 * steps * gates, steps * gates * 1.25


@rule("cdist", "_cdist_forward")
def _cdist(w: Work):
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], w.out.elements, w.out.elements
