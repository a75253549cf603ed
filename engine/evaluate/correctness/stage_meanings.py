"""The computation of each stage kind before its epilogue, in PyTorch. There are no layouts here: shapes are logical.

Accumulation is in f32, or in float64 for an exact run and for f64 operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch

from dsl.axes import axes_of, single_axes
from dsl.ir import (
    Attention,
    Concat,
    Conv,
    DType,
    Gemm,
    GroupedGemm,
    Map,
    Normalize,
    Operand,
    Pool,
    Program,
    Reduce,
    Scan,
    Stage,
    Transform,
)
from engine.evaluate.correctness.expressions import Scope
from engine.evaluate.correctness.rounding import operand

F = torch.nn.functional
Env = Mapping[str, torch.Tensor]


def compute(
    stage: Stage, env: Env, exact: bool, rounds: bool = False, whole: tuple[int, ...] = ()
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(`acc`, `acc2` if the stage has one). `rounds`: a convolution that rounds its operands as it reads them; `whole`:
    the shape of x in the program, of which a map may read a part."""
    if isinstance(stage, Gemm):
        return _gemm(stage, env, exact)
    if isinstance(stage, GroupedGemm):
        return _grouped(stage, env, exact), None
    if isinstance(stage, Conv):
        return _conv(stage, env, exact, rounds), None
    if isinstance(stage, Concat):
        return _joined(stage, [element(env[o.name]) for o in stage.parts]), None
    if isinstance(stage, Attention):
        return _attention(stage, env, exact), None
    x = element(env[stage.x.name])
    if isinstance(stage, Map):
        return _part(stage, x, whole), None
    if isinstance(stage, Pool):
        return _pool(stage, x), None
    of = Scope(x, axes_of(stage, x.dim()), env).value(stage.of).expand(x.shape)
    if isinstance(stage, Normalize) and stage.op == "absmax":
        return _scaled_rows(of)
    if isinstance(stage, Scan):
        return _scan(stage, of), of
    return (_reduce(stage, of), None) if isinstance(stage, Reduce) else (_normalize(stage, of, env), of)


def _part(stage: Map, x: torch.Tensor, whole: tuple[int, ...]) -> torch.Tensor:
    """The part of x that a map reads. On other sizes than the program's it lacks as many elements as in the program."""
    for axis, size in enumerate(stage.crop or ()):
        start = stage.start[axis] if stage.start else 0
        x = x.narrow(axis, start, x.shape[axis] - (whole[axis] - size))
    return x


def element(x: torch.Tensor) -> torch.Tensor:
    """A stored element as `acc`: f32, or f64 if it is stored as f64."""
    return x if x.dtype is torch.float64 else x.to(torch.float32)


# ---- products -------------------------------------------------------------------------------------------------


def _side(o: Operand, env: Env) -> torch.Tensor:
    x = env[o.name]
    return x.transpose(-2, -1) if o.transposed else x


def _read(x: torch.Tensor, compute: DType | None, exact: bool, rounds: bool = False) -> torch.Tensor:
    return x.to(torch.float64) if exact else operand(x, compute, rounds)


def _accumulator(acc: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """int8 products were summed exactly. The epilogue reads the sum as f32."""
    return acc.to(torch.float32) if a.dtype is torch.int8 else acc


def _gemm(stage: Gemm, env: Env, exact: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    a, b = _side(stage.a, env), _side(stage.b, env)
    casts = a.dtype is not b.dtype  # the second is rounded as it is read
    acc = torch.matmul(_read(a, stage.config.compute, exact), _read(b, stage.config.compute, exact, casts))
    acc = acc if exact else _accumulator(acc, a)
    return (acc[..., 0::2], acc[..., 1::2]) if stage.pairs else (acc, None)


def _grouped(stage: GroupedGemm, env: Env, exact: bool) -> torch.Tensor:
    a, b = _side(stage.a, env), _side(stage.b, env)
    sizes = [int(s) for s in env[stage.sizes.name]]
    if len(sizes) != b.shape[0] or min(sizes, default=0) < 0 or sum(sizes) != a.shape[0]:
        raise ValueError(f"sizes {sizes} do not divide {a.shape[0]} rows among {b.shape[0]} matrices")
    wide_a, wide_b = (_read(x, stage.config.compute, exact) for x in (a, b))
    parts = [torch.matmul(rows, w) for rows, w in zip(wide_a.split(sizes), wide_b, strict=True)]
    acc = torch.cat(parts)
    return acc if exact else _accumulator(acc, a)


_CONV = {
    (1, False): F.conv1d, (2, False): F.conv2d, (3, False): F.conv3d,
    (1, True): F.conv_transpose1d, (2, True): F.conv_transpose2d, (3, True): F.conv_transpose3d,
}  # fmt: skip


def _conv(stage: Conv, env: Env, exact: bool, rounds: bool) -> torch.Tensor:
    x, w = env[stage.x.name], env[stage.w.name]
    n = stage.spatial
    kwargs = {
        "stride": stage.stride or (1,) * n,
        "padding": stage.padding or (0,) * n,
        "dilation": stage.dilation or (1,) * n,
        "groups": stage.groups,
    }
    if stage.transposed:
        kwargs["output_padding"] = stage.output_padding or (0,) * n
    read = [_read(t, stage.config.compute, exact, rounds) for t in (x, w)]
    acc = _CONV[n, stage.transposed](*read, **kwargs)
    return acc if exact else _accumulator(acc, x)


# ---- attention ------------------------------------------------------------------------------------------------


def _attention(stage: Attention, env: Env, exact: bool) -> torch.Tensor:
    """The probabilities are rounded to the operands' type before they are multiplied by v, and divided by their sum
    after it, as the kernel does. One batch at a time: the scores of all would fill the memory."""
    whole = [env[o.name].permute(stage.by_head((0, 1, 2, 3))) for o in stage.operands]
    parts = stage.parts(tuple(tuple(x.shape) for x in whole))
    read = [whole[i].narrow(1, first, count) for i, first, count in parts]
    narrow, wide = read[0].dtype, torch.float64 if exact else torch.float32
    groups = read[0].shape[1] // read[1].shape[1]
    results = []
    for q, k, v in zip(*read, strict=True):
        q, k, v = (x.to(wide) for x in (q, k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)))
        scores = (q @ k.transpose(-2, -1)) * stage.scale
        if stage.causal:
            above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(above, -torch.inf)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        total = weights.sum(-1, keepdim=True)
        weights = weights if exact else weights.to(narrow).to(wide)
        results.append((weights @ v) / total)
    return torch.stack(results).permute(stage.in_order((0, 1, 2, 3)))


# ---- transforms -----------------------------------------------------------------------------------------------


def transform(stage: Transform, env: Env, program: Program) -> torch.Tensor:
    """The change of representation without its cast. `interleave` takes rows (the axis before the last) in turn.

    On other sizes than the program's, `view` scales its leading axis, and `pad` and `crop` add and remove as many
    elements as in the program.
    """
    x = env[stage.x.name]
    shape = program.type_of(stage.x.name).shape
    if stage.other is not None:
        axis = max(x.dim() - 2, 0)
        pair = torch.stack([x, env[stage.other.name]], axis + 1)
        x = pair.flatten(axis, axis + 1)
        shape = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    if stage.view is not None:
        x, shape = _view(x, shape, stage.view), stage.view
    if stage.permute is not None:
        x, shape = x.permute(stage.permute), tuple(shape[i] for i in stage.permute)
    if stage.pad is not None:
        after = [p - s for p, s in zip(stage.pad, shape, strict=True)]
        x, shape = F.pad(x, [n for amount in reversed(after) for n in (0, amount)]), stage.pad
    if stage.crop is not None:
        for axis, (size, s) in enumerate(zip(stage.crop, shape, strict=True)):
            x = x.narrow(axis, 0, x.shape[axis] - (s - size))
    return x


def _view(x: torch.Tensor, written: tuple[int, ...], view: tuple[int, ...]) -> torch.Tensor:
    if x.numel() == prod(view):
        return x.reshape(view)
    try:
        return x.reshape((-1, *view[1:]))
    except RuntimeError:
        raise ValueError(
            f"{list(x.shape)} cannot be seen as rows of {list(view)}; written for {list(written)}"
        ) from None


# ---- reductions and norms -------------------------------------------------------------------------------------


def positions(names: tuple[str, ...], stage: Stage, rank: int) -> list[int]:
    """The positions of named axes, ascending."""
    axes = axes_of(stage, rank)
    return sorted({p for name in names for p in axes[name]})


def axes_left(stage: Reduce, rank: int) -> dict[str, tuple[int, ...]]:
    """The axes that a reduction's epilogue may name, with their positions in its result."""
    axes = axes_of(stage, rank)
    if stage.keepdim:
        return axes
    gone = set(positions(stage.over, stage, rank))
    place = {p: i for i, p in enumerate(p for p in range(rank) if p not in gone)}
    return {name: tuple(place[p] for p in at) for name, at in axes.items() if not gone.intersection(at)}


def _reduce(stage: Reduce, x: torch.Tensor) -> torch.Tensor:
    dims, keep = positions(stage.over, stage, x.dim()), stage.keepdim
    if stage.op == "argmax":
        rest = [i for i in range(x.dim()) if i not in dims]
        indices = x.permute(*rest, *dims).flatten(len(rest)).argmax(-1).to(torch.int32)
        return indices.reshape([1 if i in dims else n for i, n in enumerate(x.shape)]) if keep else indices
    named = {
        "sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "logsumexp": torch.logsumexp,
    }  # fmt: skip
    return named[stage.op](x, dims, keepdim=keep)


def _scan(stage: Scan, x: torch.Tensor) -> torch.Tensor:
    (dim,) = positions(stage.over, stage, x.dim())
    running = torch.cumsum if stage.op == "sum" else torch.cumprod
    return running(x.flip(dim), dim).flip(dim) if stage.reverse else running(x, dim)


def _joined(stage: Concat, parts: list[torch.Tensor]) -> torch.Tensor:
    """Parts with one element along an axis repeat it."""
    at = single_axes(parts[0].dim())[stage.over]
    whole = [max(sizes) for sizes in zip(*(p.shape for p in parts), strict=True)]
    return torch.cat([p.expand(*whole[:at], p.shape[at], *whole[at + 1 :]) for p in parts], at)


def _scaled_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row divided by its largest magnitude, and that magnitude. A row of zeros stays zero."""
    most = x.abs().amax(-1, keepdim=True)
    return x * (1 / most.clamp(min=torch.finfo(torch.float32).tiny)), most


def _normalize(stage: Normalize, x: torch.Tensor, env: Env) -> torch.Tensor:
    params = [env[p.name].to(x.dtype) for p in stage.params]
    if stage.op in ("softmax", "log_softmax"):
        dims = positions(stage.over, stage, x.dim())
        x = x - x.amax(dims, keepdim=True)  # as kernels do: the logarithm of a sum of large terms would cost digits
        terms = x.exp()
        total = terms.sum(dims, keepdim=True)
        return x - total.log() if stage.op == "log_softmax" else terms / total
    if stage.op == "batchnorm":
        mean, var, *affine = params
        return F.batch_norm(x, mean, var, *_affine(affine), training=False, eps=stage.eps)
    weight, bias = _affine(params)
    if stage.op == "groupnorm":
        return F.group_norm(x, stage.groups, weight, bias, stage.eps)
    if stage.op == "instancenorm":
        dims = list(range(2, x.dim()))
        var, mean = torch.var_mean(x, dims, unbiased=False, keepdim=True)
        y = (x - mean) * torch.rsqrt(var + stage.eps)
        return _scaled(y, weight, bias, [1, -1, *[1] * len(dims)])
    dims = positions(stage.over, stage, x.dim())
    shape = [x.shape[d] if d in dims else 1 for d in range(x.dim())]
    if stage.op == "rmsnorm":
        y = x * torch.rsqrt(x.square().mean(dims, keepdim=True) + stage.eps)
    else:
        var, mean = torch.var_mean(x, dims, unbiased=False, keepdim=True)
        y = (x - mean) * torch.rsqrt(var + stage.eps)
    return _scaled(y, weight, bias, shape)


def _affine(params: list[torch.Tensor]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    weight, bias = (*params, None, None)[:2]
    return weight, bias


def _scaled(y: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, shape: list[int]) -> torch.Tensor:
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


_POOL = {
    ("max", 1): F.max_pool1d, ("max", 2): F.max_pool2d, ("max", 3): F.max_pool3d,
    ("avg", 1): F.avg_pool1d, ("avg", 2): F.avg_pool2d, ("avg", 3): F.avg_pool3d,
}  # fmt: skip


def _pool(stage: Pool, x: torch.Tensor) -> torch.Tensor:
    n = x.dim() - 2
    if stage.window is None:
        dims = list(range(2, x.dim()))
        return x.amax(dims, keepdim=True) if stage.op == "max" else x.mean(dims, keepdim=True)
    apart = {"dilation": stage.dilation} if set(stage.dilation) - {1} else {}
    return _POOL[stage.op, n](x, stage.window, stage.stride or stage.window, stage.padding or (0,) * n, **apart)
