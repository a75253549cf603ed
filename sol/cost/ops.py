"""What one operation costs: matrix FLOPs, vector FLOPs, special functions, bytes. From its ATen name and shapes.

Conventions, kept by every rule below:
* a multiply-add of a product is 2 FLOPs (the convention of data sheets and of torch.utils.flop_counter);
* convolutions count every tap, those that fall on padding included, as torch.utils.flop_counter does; what of a
  product's FLOPs must really be done stands beside it (`needed`, from `sol.cost.needed`), and bounds take that;
* vector FLOPs are what the ordinary pipes must do at least; `special` counts results of the special-function
  units (exp2, log2, rcp, rsqrt, tanh: 16 a clock and SM, CUDA C++ Programming Guide, "Arithmetic instructions");
* bytes: each distinct input read once, each output written once; a gather reads at most the rows it takes.
An operation that no rule knows is priced by its bytes alone and says so (`kind == "bytes"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log2, prod
from typing import Any

from sol.cost.needed import contraction, convolution, kept, pooled
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
from sol.graph import DTYPE_BYTES, Op, Tensor


@dataclass(frozen=True)
class Cost:
    """`kind`: matrix | conv | attention | pointwise | reduction | norm | pool | gather | copy | view | none | bytes.

    `matrix`, `vector` in FLOPs, `special` in special-function results; `read`: input name -> bytes; `write`: bytes.
    `needed`: the part of `matrix` that no kernel can leave out; None where that is all of it.
    """

    kind: str
    matrix: float = 0.0
    vector: float = 0.0
    special: float = 0.0
    read: Mapping[str, float] = field(default_factory=dict)
    write: float = 0.0
    needed: float | None = None

    @property
    def must(self) -> float:
        """Matrix FLOPs that must be done."""
        return self.matrix if self.needed is None else self.needed

    @property
    def bytes(self) -> float:
        return sum(self.read.values()) + self.write

    @property
    def flops(self) -> float:
        return self.matrix + self.vector

    @property
    def intensity(self) -> float:
        """FLOP/byte of the operation alone, from and to device memory."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Work:
    """What a rule sees: the op, its input and output tensors in order, its other arguments by ATen name."""

    op: Op
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]

    @property
    def out(self) -> Tensor:
        return self.outs[0]

    def attr(self, *names: str, default: Any = None) -> Any:
        for name in names:
            if name in self.op.attrs:
                return self.op.attrs[name]
        return default


Rule = Callable[[Work], tuple[str, float, float, float]]  # kind, matrix, vector, special
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        for name in names:
            RULES[name] = fn
        return fn

    return register


# ---- the matrix family ----------------------------------------------------------------------------------------


@rule("linear")
def _linear(w: Work):
    bias = w.out.elements if len(w.ins) > 2 else 0
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], bias, 0


@rule("mm", "bmm", "matmul", "mv", "dot", "vdot", "inner", "_int_mm")
def _matmul(w: Work):
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], 0, 0


@rule("chain_matmul", "linalg_multi_dot")
def _chain(w: Work):
    """The cheapest order of the products, as PyTorch chooses it: the chain's dimensions decide."""
    shapes = [t.shape for t in w.ins]
    dims = [
        *(s[0] if len(s) > 1 or i else 1 for i, s in enumerate(shapes)),
        shapes[-1][1] if len(shapes[-1]) > 1 else 1,
    ]
    terms = [frozenset((str(i), str(i + 1))) for i in range(len(shapes))]
    out = frozenset(("0", str(len(shapes))))
    return "matrix", contraction(terms, out, {str(i): d for i, d in enumerate(dims)}), 0, 0


@rule("_scaled_mm")
def _scaled(w: Work):
    """Two fp8 matrices and a scale of each, a number or one a row and column: one multiplication an element of both."""
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], 2.0 * w.out.elements, 0


@rule("_grouped_mm")
def _grouped(w: Work):
    """[T, K] rows, each by one of [E, K, N]."""
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


def _einsum_terms(w: Work) -> tuple[list[frozenset[str]], frozenset[str], dict[str, int]] | None:
    """An einsum's factors, its result and the size of every index; None for an equation that we do not read."""
    equation = str(w.attr("equation", default="")).replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if not left or len(terms) != len(w.ins):
        return None
    if not arrow:
        once = "".join(sorted(c for c in set(left) - {",", "."} if left.count(c) == 1))
        out = ("..." if "..." in left else "") + once
    # "..." is as many axes as a factor has left, aligned at the right: digits name them, the last one 0.
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
    """Pairs contracted left to right: 2 x the product of every index a pair spans (1 x when nothing is summed). What
    one factor alone has is summed beforehand."""
    known = _einsum_terms(w)
    if known is None:
        k = w.ins[0].shape[-1] if w.ins and w.ins[0].shape else 1
        return "matrix", 2.0 * w.out.elements * k, 0, 0
    terms, out, size = known
    matrix = vector = 0.0
    left: list[frozenset[str]] = []
    for i, term in enumerate(terms):
        keep = term & out.union(*terms[:i], *terms[i + 1 :])
        vector += float(prod(size[c] for c in term)) if term - keep else 0.0
        left.append(keep)
    if len(terms) == 1:
        return ("reduction" if vector else "view"), 0, vector, 0
    have = left[0]
    for i, term in enumerate(left[1:], 1):
        span = have | term
        have = span & out.union(*left[i + 1 :])
        work = float(prod(size[c] for c in span))
        if span - have:
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


_ATTENTION = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
)


@rule(*_ATTENTION)
def _attention(w: Work):
    """Two products and one exp a score. Under a causal mask, row i of L has min(i + 1, S) scores: PyTorch aligns the
    mask at the upper left, whatever the lengths."""
    q, k, v = w.ins[:3]
    rows, keys = q.shape[-2], k.shape[-2]
    scores = float(rows * keys)
    if w.attr("is_causal", default=False):
        full = min(rows, keys)
        scores = full * (full + 1) / 2 + (rows - full) * keys
    scores *= prod(q.shape[:-2])
    return "attention", 2 * scores * (q.shape[-1] + v.shape[-1]), 4 * scores, scores


@rule("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _recurrent(w: Work):
    """Every weight matrix meets every step of every sequence; the gates are special functions."""
    steps = prod(w.ins[0].shape[:-1])
    matrices = [t for t in w.ins[1:] if t.kind in ("parameter", "buffer") and len(t.shape) == 2]
    gates = sum(t.shape[0] for t in matrices) / 2
    return "matrix", 2.0 * steps * sum(t.elements for t in matrices), 4.0 * steps * gates, steps * gates * 1.25


@rule("cdist", "_cdist_forward")
def _cdist(w: Work):
    return "matrix", 2.0 * w.out.elements * w.ins[0].shape[-1], w.out.elements, w.out.elements


def canonical(name: str) -> str:
    """ATen's name without namespace, overload and the mark of in-place: `aten.add_.Tensor` -> `add`."""
    name = name.removeprefix("aten::").removeprefix("aten.")
    name = name.split(".")[0]
    if name.startswith("__") and name.endswith("__"):  # `__or__`, the operator of Python
        name = name.strip("_")
        return _OPERATORS.get(name.removeprefix("i"), _OPERATORS.get(name, name))
    return name.rstrip("_") or name


_OPERATORS = {"or": "bitwise_or", "and": "bitwise_and", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
              "rshift": "bitwise_right_shift"}  # fmt: skip
# What one operation on complex numbers costs in real ones, where it is not the two of an addition.
_COMPLEX = {"mul": 6.0, "div": 11.0, "reciprocal": 7.0, "addcmul": 8.0, "square": 6.0, "abs": 3.0}


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
        if name == "div" and len(w.ins) == 1:  # by a number: its reciprocal is known
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
    if name in POOLS:  # overlapping windows can share their sums and comparisons: an element is used once at least
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
    """An element's comparisons: log2 of the row's length to sort it, one to choose from it."""
    shape = w.ins[0].shape
    if "sort" not in name or not shape:
        return 1.0
    return max(1.0, log2(max(1, shape[int(w.attr("dim", default=-1) or 0) % len(shape)])))


def _viewable(source: Tensor, out: Tensor) -> bool:
    """Whether a reshape moves nothing: as torch's computeStride, axes that lie behind one another may be regrouped.

    Tensors whose strides nobody recorded count as contiguous, so as views.
    """
    if not source.strides or len(source.strides) != len(source.shape) or source.elements <= 1:
        return True
    sizes = [(n, s) for n, s in zip(source.shape, source.strides, strict=True) if n != 1]
    chunks: list[int] = []  # lengths of runs of axes that lie in memory as one
    for i, (n, s) in enumerate(sizes):
        if i and sizes[i - 1][1] == n * s:
            chunks[-1] *= n
        else:
            chunks.append(n)
    left = [n for n in out.shape if n != 1]
    for length in chunks:
        got = 1
        while got < length and left:
            got *= left.pop(0)
        if got != length:
            return False
    return not left


def _is_gelu_tanh(name: str, w: Work) -> bool:
    return name == "gelu" and w.attr("approximate", default="none") == "tanh"


def cost(op: Op, tensors: Mapping[str, Tensor]) -> Cost:
    """The cost of one op of a graph. Never fails on a known graph: what it cannot price it prices by bytes."""
    w = Work(op, tuple(tensors[n] for n in op.inputs), tuple(tensors[n] for n in op.outputs))
    name = canonical(op.op)
    try:
        kind, matrix, vector, special = _priced(name, w)
        needed = _needed(name, w, matrix)
    except (IndexError, TypeError, ValueError, KeyError, ZeroDivisionError):  # arguments that the rule does not expect
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
    """The part of an op's own FLOPs that cannot be left out, where that is less than all."""
    least = matrix
    if name in CONVOLUTIONS and len(w.ins) > 1 and len(w.ins[1].shape) > 2:
        least = convolution(w.op, w.ins[0], w.ins[1], w.out, _transposed(name, w.op))[0]
    elif name == "einsum" and len(w.ins) > 2 and (known := _einsum_terms(w)) is not None:
        least = contraction(*known)
    return least if least < matrix else None


def _transposed(name: str, op: Op) -> bool:
    return "transpose" in name or bool(op.attrs.get("transposed", False))


def touched(op: Op, tensor: Tensor, tensors: Mapping[str, Tensor]) -> int:
    """How many elements of an input the op can be made to read at least: a gather or a slice takes a part."""
    try:
        return min(tensor.elements, _touched(op, tensor, tensors))
    except (IndexError, TypeError, ValueError, ZeroDivisionError):  # an overload with other arguments
        return tensor.elements


def _touched(op: Op, tensor: Tensor, tensors: Mapping[str, Tensor]) -> int:
    name = canonical(op.op)
    if name in GATHERS or name in SUBSETS:
        taken = sum(tensors[n].elements for n in op.outputs)
        source = op.inputs[1] if name.startswith("embedding") and _table_second(op, tensors) else op.inputs[0]
        if tensor.name == source:
            return taken
    elif name in SHAPED_LIKE and tensor.name != op.inputs[0]:
        return 0
    elif tensor.name == op.inputs[0]:
        out = tensors[op.outputs[0]]
        if name in CONVOLUTIONS and len(op.inputs) > 1 and len(tensors[op.inputs[1]].shape) > 2:
            return convolution(op, tensor, tensors[op.inputs[1]], out, _transposed(name, op))[1]
        if name in POOLS:
            return pooled(op, tensor, out)
        if name in ("tril", "triu") and len(tensor.shape) > 1:
            return kept(op, tensor)
        if name in UPSAMPLE or "upsample_nearest" in name:
            return min(tensor.elements, int(out.elements * min(UPSAMPLE.get(name, 1), tensor.elements)))
        if name in OVERWRITES and len(op.inputs) == 2 and op.inputs[0] != op.inputs[1]:
            over = out if name == "copy" else tensors[op.inputs[1]]
            return tensor.elements - over.elements
        if "pad" in name and name in COPIES:  # a negative padding leaves some out
            return out.elements
    elif name in _ATTENTION and tensor.name in op.inputs[1:3] and op.attrs.get("is_causal"):
        rows, keys = tensors[op.inputs[0]].shape[-2], tensor.shape[-2]  # no row sees a key behind the last row
        return tensor.elements * min(rows, keys) // max(1, keys)
    return tensor.elements


def _table_second(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """`embedding(weight, indices)` in ATen; a tracer that kept the functional order has the table second."""
    return len(op.inputs) > 1 and not tensors[op.inputs[0]].dtype.startswith(("f", "bf"))


def is_view(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """True when the op moves no data: its outputs are the input's memory seen otherwise."""
    return cost(op, tensors).kind == "view"


def bytes_only(ops: Iterable[Op], tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of the operations that no rule knows, so that a report can say what it priced by bytes alone."""
    return tuple(dict.fromkeys(canonical(o.op) for o in ops if cost(o, tensors).kind == "bytes"))
