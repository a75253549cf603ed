"""Convolutions, pools, reductions and normalisations: the rules for stages other than products."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl.ir import Acc, Number
from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.drafts import (
    Convolution,
    Leaf,
    Normalization,
    Pooling,
    Reduction,
    Result,
    Source,
    Value,
    groups_of,
    image_names,
)
from engine.strategies.planner.lowering.lowering_context import MAX_RANK, LoweringContext

CONVOLUTIONS = tuple(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))
POOLS = {
    f"{how}_pool{n}d{more}": kind
    for n in (1, 2, 3)
    for how, kind, more in (
        ("max", "max", ""), ("max", "max", "_with_indices"), ("avg", "avg", ""),
        ("adaptive_avg", "avg", ""), ("adaptive_max", "max", ""),
    )
}  # fmt: skip
REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "max": "max", "min": "min",
              "logsumexp": "logsumexp"}  # fmt: skip
FLOAT_EPS = 2.0**-23  # torch.finfo(torch.float32).eps
NORMALIZATIONS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")


def _sizes(value: object, n: int, default: int) -> tuple[int, ...]:
    """One size per axis, from ATen's list of one or n."""
    sizes = [value] if isinstance(value, int) else list(value or [])
    sizes = sizes * n if len(sizes) == 1 else sizes
    return tuple(int(x) for x in sizes) or (default,) * n


def convolution(walk: LoweringContext) -> Value:
    op, out = walk.op, walk.out()
    at = walk.named("input", "weight", "bias")
    n, transposed = int(op.op[-2]), "transpose" in op.op
    x, w = walk.plain(walk.leaf(at["input"])), walk.plain(walk.leaf(at["weight"]))
    if len(x.shape) != n + 2:
        raise walk.refuse("of one image without a batch axis is not covered yet; add it with `x[None]`")
    dilation = _sizes(op.attrs.get("dilation"), n, 1)
    padding = op.attrs.get("padding")
    if isinstance(padding, str):
        reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
        if padding == "same" and any(r % 2 for r in reach):
            raise walk.refuse("with padding='same' and an even window pads unevenly, which is not covered yet")
        padding = [0] * n if padding == "valid" else [r // 2 for r in reach]
    draft = Convolution(
        out.shape, out.dtype, x=walk.see(x, x.shape), w=walk.see(w, w.shape), transposed=transposed,
        stride=_sizes(op.attrs.get("stride"), n, 1), padding=_sizes(padding, n, 0), dilation=dilation,
        output_padding=_sizes(op.attrs.get("output_padding"), n, 0), groups=int(op.attrs.get("groups", 1)),
    )  # fmt: skip
    result = walk.add(draft)
    if "bias" in at:
        term = walk.term(walk.channels(at["bias"], len(out.shape)), result)
        result = replace(result, expr=pointwise.binary("add", result.expr, term))
    return result


def pool(walk: LoweringContext) -> Value:
    op, out = walk.op, walk.out()
    at, n = op.attrs, int(op.op.split("pool")[1][0])
    x = walk.plain(walk.leaf(walk.arguments()[0]))
    if len(x.shape) != n + 2:
        raise walk.refuse("of one image without a batch axis is not covered yet; add it with `x[None]`")
    source = walk.see(x, x.shape)
    if op.op.startswith("adaptive"):
        if out.shape[2:] == (1,) * n:
            return walk.add(Pooling(out.shape, out.dtype, x=source, op=POOLS[op.op]))
        if any(a % b for a, b in zip(x.shape[2:], out.shape[2:], strict=True)):
            raise walk.refuse("whose windows differ in size is not covered yet")
        window = tuple(a // b for a, b in zip(x.shape[2:], out.shape[2:], strict=True))
        draft = Pooling(out.shape, out.dtype, x=source, op=POOLS[op.op], window=window, stride=window)
        draft.padding = (0,) * n
        return walk.add(draft)
    window = _sizes(at.get("kernel_size"), n, 1)
    padding = _sizes(at.get("padding"), n, 0)
    dilation, stride = _sizes(at.get("dilation"), n, 1), _sizes(at.get("stride") or window, n, 1)
    axes = zip(x.shape[2:], window, stride, padding, dilation, strict=True)
    whole = tuple((size + 2 * p - d * (w - 1) - 1) // s + 1 for size, w, s, p, d in axes)
    cut = out.shape[2:] != whole  # ceil_mode: the last windows end outside
    counts = any(padding) and POOLS[op.op] == "avg" and at.get("count_include_pad") is False
    if cut or counts or at.get("divisor_override"):
        raise walk.refuse(f"with {pointwise.describe(op)} is not covered yet")
    draft = Pooling(
        out.shape, out.dtype, x=source, op=POOLS[op.op], window=window, stride=stride, padding=padding,
        dilation=dilation,
    )  # fmt: skip
    return walk.add(draft)


def reduction(walk: LoweringContext) -> Value:
    op, out, value = walk.op, walk.out(), walk.arguments()[0]
    if isinstance(value, float) or ("dim" not in op.attrs and op.op in ("max", "min")) or len(op.inputs) > 1:
        raise walk.refuse(f"with {pointwise.describe(op)} is not covered yet")
    dims = op.attrs.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or range(len(value.shape)))
    dims = sorted({d % len(value.shape) for d in dims})
    if all(value.shape[d] == 1 for d in dims):  # each of these reductions of one element returns that element
        return walk.reshaped(value, out.shape)
    op_name = REDUCTIONS[op.op]
    shape = walk.own_shape(value)
    over = named_axes(value.shape, shape, dims) if shape else None
    if over is None:
        shape, over = merged_axes(value.shape, dims)
    leaf, of = walk.carried(value, shape)
    inside = image_names(len(shape))
    left = tuple(d for d, name in zip(shape, inside, strict=True) if name not in over)
    draft = Reduction(left, out.dtype, x=walk.see(leaf, shape), op=op_name, over=over, of=of, inside=inside)
    return walk.add(draft, out.shape)


def named_axes(view: tuple[int, ...], shape: tuple[int, ...], dims: list[int]) -> tuple[str, ...] | None:
    """The axes of `shape` that hold the axes `dims` of `view`; None if one of them holds other axes too."""
    groups = groups_of(view, shape)
    if groups is None or len(shape) > MAX_RANK:
        return None
    names, over = image_names(len(shape)), []
    for seen, own in groups:
        inside = [i in dims for i in seen]
        if any(inside) and not all(inside):
            return None
        over += [names[i] for i in own if all(inside)]
    return tuple(over) or None


def merged_axes(view: tuple[int, ...], dims: list[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """`view` with adjacent axes merged that are all reduced or all kept, and the names of the reduced ones."""
    runs: list[tuple[bool, int]] = []
    for i, d in enumerate(view):
        fate = i in dims
        if runs and (runs[-1][0] == fate or d == 1):
            runs[-1] = (runs[-1][0], runs[-1][1] * d)
        else:
            runs.append((fate, d))
    shape = tuple(d for _, d in runs)
    names = image_names(len(shape))
    return shape, tuple(name for name, (fate, _) in zip(names, runs, strict=True) if fate)


def along_one(walk: LoweringContext, value: Value, dim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The shape in which a stage reads a value, and the name of the axis `dim` of the value in it."""
    shape = walk.own_shape(value)
    over = named_axes(value.shape, shape, [dim]) if shape else None
    return (shape, over) if over is not None and len(over) == 1 else merged_axes(value.shape, [dim])


# ---- normalisations ----


def normalization(walk: LoweringContext) -> Value:
    rule = {
        "softmax": _softmax, "log_softmax": _softmax, "layer_norm": _over_last, "rms_norm": _over_last,
        "group_norm": _group_norm, "instance_norm": _instance_norm, "batch_norm": _batch_norm,
    }[walk.op.op]  # fmt: skip
    return rule(walk)


def _softmax(walk: LoweringContext) -> Value:
    value, op = walk.arguments()[0], walk.op
    if op.attrs.get("dtype") not in (None, walk.out().dtype):
        raise walk.refuse("into another element type is not covered yet")
    view = value.shape
    dim = int(op.attrs["dim"]) % len(view)
    if view[dim] == 1:  # the only element's share is 1, its logarithm 0; NaN as in PyTorch
        target = walk.target([value], view)
        x = walk.term(value, target)
        log = pointwise.binary("sub", x, x)
        return replace(target, expr=log if op.op == "log_softmax" else pointwise.binary("add", log, Number(1.0)))
    shape, over = along_one(walk, value, dim)
    return _normalized(walk, value, shape, op.op, over=over)


def _over_last(walk: LoweringContext) -> Value:
    """layer_norm and rms_norm: each row of `normalized_shape` elements."""
    op, at = walk.op, walk.named("input", "weight", "bias")
    n = prod(op.attrs["normalized_shape"])
    value = at["input"]
    rows = prod(value.shape) // n
    eps = op.attrs.get("eps")
    if eps is None:
        dtype = walk.graph.tensors[op.inputs[0]].dtype
        if dtype != "f32":  # PyTorch 2.11 and 2.13 take different ones for halves
            raise walk.refuse(f"with the eps of {dtype}, which depends on PyTorch's version; give it one")
        eps = FLOAT_EPS
    shape = walk.own_shape(value)
    over = ("n",)
    if shape is None or len(shape) < 2 or shape[-1] != n:
        shape = (rows, n)
    elif len(shape) > 2:
        over = image_names(len(shape))[-1:]
    name = {"layer_norm": "layernorm", "rms_norm": "rmsnorm"}[op.op]
    params = _parameters(walk, at, ("weight", "bias"), n)
    return _normalized(walk, value, shape, name, over=over, params=params, eps=float(eps))


def _group_norm(walk: LoweringContext) -> Value:
    op, at = walk.op, walk.named("input", "weight", "bias")
    value = at["input"]
    channels = value.shape[1]
    shape = _image(walk, value)
    params = _parameters(walk, at, ("weight", "bias"), channels)
    groups = int(op.attrs["num_groups"])
    return _normalized(
        walk, value, shape, "groupnorm", params=params, groups=groups, eps=float(op.attrs.get("eps", 1e-5))
    )


def _instance_norm(walk: LoweringContext) -> Value:
    op = walk.op
    at = walk.named("input", "weight", "bias", "running_mean", "running_var")
    if not op.attrs.get("use_input_stats", True):
        return _inference(walk, at)
    value, eps = at["input"], float(op.attrs.get("eps", 1e-5))
    channels, size = value.shape[1], prod(value.shape[2:])
    shape = walk.own_shape(value)
    if "weight" not in at and (shape is None or (len(shape) == 2 and shape[-1] == size)):
        # Each channel of each image is one row.
        rows = (value.shape[0] * channels, size)
        return _normalized(walk, value, rows, "layernorm", over=("n",), eps=eps)
    params = _parameters(walk, at, ("weight", "bias"), channels)
    return _normalized(walk, value, _image(walk, value), "instancenorm", params=params, eps=eps)


def _batch_norm(walk: LoweringContext) -> Value:
    if walk.op.attrs.get("training") or walk.op.attrs.get("train"):
        raise walk.refuse("in training mode uses the batch's own statistics, which is not covered yet; call `.eval()`")
    return _inference(walk, walk.named("input", "weight", "bias", "running_mean", "running_var"))


def _inference(walk: LoweringContext, at: dict[str, Value]) -> Value:
    """With given statistics: (x - mean) / sqrt(var + eps) * weight + bias along the channels, in the epilogue."""
    x, out = at["input"], walk.out()
    missing = [n for n in ("running_mean", "running_var") if n not in at]
    if missing:
        raise walk.refuse("without running statistics is not covered yet")
    names = [n for n in ("running_mean", "running_var", "weight", "bias") if n in at]
    operands = {n: walk.channels(at[n], len(out.shape)) for n in names}
    target = walk.target([x, *operands.values()], out.shape)
    terms = {n: walk.term(v, target) for n, v in operands.items()}
    y = pointwise.binary("sub", walk.term(x, target), terms["running_mean"])
    wide = pointwise.binary("add", terms["running_var"], Number(float(walk.op.attrs.get("eps", 1e-5))))
    y = pointwise.binary("div", y, pointwise.call("sqrt", wide))
    if "weight" in terms:
        y = pointwise.binary("mul", y, terms["weight"])
    if "bias" in terms:
        y = pointwise.binary("add", y, terms["bias"])
    return replace(target, expr=y)


def _image(walk: LoweringContext, value: Value) -> tuple[int, ...]:
    """The shape in which a norm over channels reads its input: batch, channels, and space as one axis if possible."""
    shape, view = walk.own_shape(value), value.shape
    if shape is not None and shape[:2] == view[:2] and len(shape) <= MAX_RANK:
        return shape
    return (*view[:2], prod(view[2:])) if len(view) > 2 else view


def _parameters(walk: LoweringContext, at: dict[str, Value], names: tuple[str, ...], n: int) -> tuple[Source, ...]:
    present = [name for name in names if name in at]
    if present and present[0] != names[0]:
        raise walk.refuse("with a bias and no weight is not covered yet")
    return tuple(walk.see(walk.plain(walk.leaf(at[name])), (n,)) for name in present)


def _normalized(
    walk: LoweringContext, value: Value, shape: tuple[int, ...], op: str, *, over: tuple[str, ...] = (),
    params: tuple[Source, ...] = (), groups: int = 1, eps: float = 1e-5,
) -> Result:  # fmt: skip
    leaf, of = walk.carried(value, shape)
    draft = Normalization(
        shape, walk.out().dtype, x=walk.see(leaf, shape), op=op, over=over, params=params, of=of, groups=groups, eps=eps
    )
    return walk.add(draft, walk.out().shape)


__all__ = ["CONVOLUTIONS", "NORMALIZATIONS", "POOLS", "REDUCTIONS", "Acc", "Leaf", "along_one", "convolution",
           "normalization", "pool", "reduction"]  # fmt: skip
