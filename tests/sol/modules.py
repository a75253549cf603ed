"""Modules in the manner of KernelBench's level 1, written for these tests: single operations, of every family. Small
sizes: what is tested is counting, not speed. A case is (module, *inputs); levels 2 and 3 are in networks.py.
"""

import math

import torch
from torch import nn

F = nn.functional


class Fn(nn.Module):
    """A module from a function of its inputs; further modules and tensors become its children and parameters."""

    def __init__(self, fn, **children):
        super().__init__()
        self.fn = fn
        for name, value in children.items():
            setattr(self, name, value if isinstance(value, nn.Module) else nn.Parameter(value))
        self.has_children = bool(children)

    def forward(self, *args):
        return self.fn(self, *args) if self.has_children else self.fn(*args)


def r(*shape):
    return torch.rand(*shape)


def ids(high, *shape):
    return torch.arange(math.prod(shape)).reshape(shape) % high


# ---- level 1: one operation. Products and convolutions; torch's counter knows their FLOPs -------------------------

PRODUCTS = {
    "square matmul": (Fn(lambda a, b: a @ b), r(64, 64), r(64, 64)),
    "oblong matmul": (Fn(lambda a, b: a @ b), r(32, 48), r(48, 16)),
    "large K matmul": (Fn(lambda a, b: a @ b), r(8, 2048), r(2048, 8)),
    "small K matmul": (Fn(lambda a, b: a @ b), r(256, 4), r(4, 256)),
    "irregular matmul": (Fn(lambda a, b: a @ b), r(37, 53), r(53, 29)),
    "matmul of both transposed": (Fn(lambda a, b: a.T @ b.T), r(48, 32), r(16, 48)),
    "matmul of transposed first": (Fn(lambda a, b: a.T @ b), r(48, 32), r(48, 16)),
    "3-D by 2-D matmul": (Fn(lambda a, b: a @ b), r(4, 32, 48), r(48, 16)),
    "4-D by 4-D matmul": (Fn(lambda a, b: a @ b), r(2, 3, 8, 16), r(2, 3, 16, 4)),
    "broadcast matmul": (Fn(lambda a, b: a @ b), r(2, 1, 8, 16), r(1, 3, 16, 4)),
    "2-D by 3-D matmul": (Fn(lambda a, b: a @ b), r(8, 16), r(3, 16, 4)),
    "bmm": (Fn(torch.bmm), r(4, 32, 48), r(4, 48, 16)),
    "matrix by column": (Fn(lambda a, v: a @ v), r(32, 48), r(48, 1)),
    "symmetric matmul": (Fn(lambda a: (a + a.T) @ a), r(32, 32)),
    "upper triangular matmul": (Fn(lambda a, b: torch.triu(a @ b)), r(32, 32), r(32, 32)),
    "diagonal by matrix": (Fn(lambda d, b: torch.diag(d) @ b), r(32), r(32, 16)),
    "4-D einsum": (Fn(lambda a, b: torch.einsum("bijl,lk->bijk", a, b)), r(2, 4, 4, 16), r(16, 8)),
    "einsum of scores": (Fn(lambda a, b: torch.einsum("bihd,bjhd->bhij", a, b)), r(2, 6, 3, 8), r(2, 5, 3, 8)),
    "einsum, three factors": (Fn(lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c)), r(4, 8), r(8, 16), r(16, 2)),
    "tensordot": (Fn(lambda a, b: torch.tensordot(a, b, dims=2)), r(4, 6, 8), r(6, 8, 5)),
    "tensordot over outer axes": (Fn(lambda a, b: torch.tensordot(a, b, dims=([0], [1]))), r(6, 4, 3), r(5, 6)),
    "addmm": (Fn(torch.addmm), r(32, 16), r(32, 48), r(48, 16)),
    "baddbmm": (Fn(torch.baddbmm), r(4, 32, 16), r(4, 32, 48), r(4, 48, 16)),
    "linear": (nn.Linear(64, 32), r(8, 64)),
    "linear without bias, 3-D": (nn.Linear(64, 32, bias=False), r(4, 8, 64)),
    "outer product by matmul": (Fn(lambda a, b: a[:, None] @ b[None, :]), r(32), r(16)),
    "conv1d": (nn.Conv1d(8, 16, 3), r(2, 8, 64)),
    "conv1d dilated, strided": (nn.Conv1d(8, 16, 3, stride=2, dilation=2), r(2, 8, 64)),
    "conv2d": (nn.Conv2d(8, 16, 3, padding=1), r(2, 8, 32, 32)),
    "conv2d strided, 3 channels": (nn.Conv2d(3, 16, 7, stride=4, padding=2), r(2, 3, 64, 64)),
    "conv2d grouped": (nn.Conv2d(8, 16, 3, groups=4), r(2, 8, 32, 32)),
    "conv2d depthwise": (nn.Conv2d(8, 8, 3, groups=8), r(2, 8, 32, 32)),
    "conv2d separable": (nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 4, 1)), r(2, 8, 16, 16)),
    "conv2d pointwise": (nn.Conv2d(8, 16, 1), r(2, 8, 32, 32)),
    "conv2d oblong, dilated": (nn.Conv2d(8, 16, (5, 9), padding=(2, 4), dilation=(2, 3)), r(2, 8, 64, 64)),
    "conv2d oblong image": (nn.Conv2d(3, 8, 3), r(2, 3, 16, 48)),
    "conv2d padded as same": (nn.Conv2d(3, 8, 3, padding="same"), r(2, 3, 16, 16)),
    "conv2d padded by reflection": (nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), r(2, 3, 16, 16)),
    "conv3d": (nn.Conv3d(4, 8, 3), r(2, 4, 8, 16, 16)),
    "conv3d oblong": (nn.Conv3d(3, 8, (3, 5, 7)), r(1, 3, 8, 16, 16)),
    "conv_transpose1d": (nn.ConvTranspose1d(8, 16, 3, stride=2, dilation=2), r(2, 8, 64)),
    "conv_transpose2d": (nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1), r(2, 8, 16, 16)),
    "conv_transpose2d grouped": (nn.ConvTranspose2d(8, 16, 3, groups=2), r(2, 8, 16, 16)),
    "conv_transpose2d oblong": (nn.ConvTranspose2d(8, 16, (3, 5), stride=(2, 3)), r(2, 8, 16, 16)),
    "conv_transpose3d": (nn.ConvTranspose3d(4, 8, 3), r(2, 4, 8, 8, 8)),
    "unfold, then matmul": (Fn(lambda x, w: w @ F.unfold(x, 3)), r(2, 4, 8, 8), r(6, 36)),
}  # fmt: skip

# ---- level 1: no product. Every operation must be known by name --------------------------------------------------

SIMPLE = {
    "relu": (nn.ReLU(), r(64, 64)),
    "leaky_relu": (nn.LeakyReLU(0.1), r(64, 64)),
    "prelu": (nn.PReLU(64), r(8, 64)),
    "sigmoid": (nn.Sigmoid(), r(64, 64)),
    "tanh": (nn.Tanh(), r(64, 64)),
    "silu": (nn.SiLU(), r(64, 64)),
    "gelu": (nn.GELU(), r(64, 64)),
    "gelu by tanh": (nn.GELU("tanh"), r(64, 64)),
    "mish": (nn.Mish(), r(64, 64)),
    "elu": (nn.ELU(), r(64, 64)),
    "selu": (nn.SELU(), r(64, 64)),
    "celu": (nn.CELU(), r(64, 64)),
    "softplus": (nn.Softplus(), r(64, 64)),
    "softsign": (nn.Softsign(), r(64, 64)),
    "softshrink": (nn.Softshrink(), r(64, 64)),
    "log sigmoid": (nn.LogSigmoid(), r(64, 64)),
    "hardtanh": (nn.Hardtanh(), r(64, 64)),
    "hardsigmoid": (nn.Hardsigmoid(), r(64, 64)),
    "hardswish": (nn.Hardswish(), r(64, 64)),
    "glu": (nn.GLU(), r(64, 64)),
    "gelu of minGPT": (Fn(lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x.pow(3))))), r(64, 64)),
    "softmax": (nn.Softmax(1), r(64, 64)),
    "log_softmax": (nn.LogSoftmax(1), r(64, 64)),
    "softmin": (nn.Softmin(1), r(64, 64)),
    "batch norm": (nn.BatchNorm2d(8), r(4, 8, 16, 16)),
    "layer norm": (nn.LayerNorm((8, 16, 16)), r(4, 8, 16, 16)),
    "group norm": (nn.GroupNorm(2, 8), r(4, 8, 16, 16)),
    "instance norm": (nn.InstanceNorm2d(8), r(4, 8, 16, 16)),
    "instance norm with statistics": (nn.InstanceNorm2d(8, affine=True, track_running_stats=True), r(4, 8, 16, 16)),
    "rms norm": (nn.RMSNorm(64), r(16, 64)),
    "rms norm by hand": (Fn(lambda x: x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)), r(4, 8, 16, 16)),
    "frobenius norm": (Fn(lambda x: x / torch.norm(x, p="fro")), r(64, 64)),
    "l1 norm": (Fn(lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True)), r(64, 64)),
    "l2 norm": (Fn(lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True)), r(64, 64)),
    "normalize": (Fn(F.normalize), r(64, 64)),
    "local response norm": (nn.LocalResponseNorm(3), r(2, 8, 8, 8)),
    "max pool 1-D": (nn.MaxPool1d(4), r(4, 8, 64)),
    "max pool 2-D": (nn.MaxPool2d(3, stride=2, padding=1, dilation=1), r(4, 8, 16, 16)),
    "max pool 3-D": (nn.MaxPool3d(2), r(4, 8, 8, 8, 8)),
    "avg pool 1-D": (nn.AvgPool1d(4), r(4, 8, 64)),
    "avg pool 2-D": (nn.AvgPool2d(2), r(4, 8, 16, 16)),
    "avg pool 3-D": (nn.AvgPool3d(2), r(4, 8, 8, 8, 8)),
    "adaptive avg pool": (nn.AdaptiveAvgPool2d(1), r(4, 8, 16, 16)),
    "adaptive max pool": (nn.AdaptiveMaxPool2d(4), r(4, 8, 16, 16)),
    "lp pool": (nn.LPPool2d(2, 2), r(4, 8, 16, 16)),
    "sum": (Fn(lambda x: x.sum(1, keepdim=True)), r(64, 64)),
    "mean": (Fn(lambda x: x.mean(1)), r(64, 64)),
    "max": (Fn(lambda x: x.max(1)[0]), r(64, 64)),
    "min": (Fn(lambda x: x.min(1)[0]), r(64, 64)),
    "prod": (Fn(lambda x: x.prod(1)), r(64, 64)),
    "argmax": (Fn(lambda x: x.argmax(1)), r(64, 64)),
    "argmin": (Fn(lambda x: x.argmin(1)), r(64, 64)),
    "variance": (Fn(lambda x: x.var(1)), r(64, 64)),
    "logsumexp": (Fn(lambda x: x.logsumexp(1)), r(64, 64)),
    "all and any": (Fn(lambda x: (x > 0).all(1) | (x > 1).any(1)), r(64, 64)),
    "cumsum": (Fn(lambda x: x.cumsum(1)), r(64, 64)),
    "cumprod": (Fn(lambda x: x.cumprod(1)), r(64, 64)),
    "cummax": (Fn(lambda x: x.cummax(1)[0]), r(64, 64)),
    "reverse cumsum": (Fn(lambda x: torch.cumsum(x.flip(1), 1).flip(1)), r(64, 64)),
    "exclusive cumsum": (Fn(lambda x: torch.cat((torch.zeros_like(x[:, :1]), x), 1)[:, :-1].cumsum(1)), r(64, 64)),
    "masked cumsum": (Fn(lambda x, m: (x * m).cumsum(1)), r(64, 64), r(64, 64) > 0.5),
    "logcumsumexp": (Fn(lambda x: x.logcumsumexp(1)), r(64, 64)),
    "mse": (Fn(lambda a, b: torch.mean((a - b) ** 2)), r(64, 64), r(64, 64)),
    "smooth l1": (Fn(F.smooth_l1_loss), r(64, 64), r(64, 64)),
    "huber": (Fn(F.huber_loss), r(64, 64), r(64, 64)),
    "cross entropy": (Fn(F.cross_entropy), r(64, 10), ids(10, 64)),
    "kl_div": (Fn(lambda a, b: F.kl_div(a.log(), b, reduction="batchmean")), r(64, 10), r(64, 10)),
    "hinge": (Fn(lambda a, b: torch.mean(torch.clamp(1 - a * b, min=0))), r(64, 64), r(64, 64)),
    "cosine loss": (Fn(lambda a, b: torch.mean(1 - F.cosine_similarity(a, b, dim=1))), r(64, 64), r(64, 64)),
    "triplet loss": (nn.TripletMarginLoss(), r(64, 64), r(64, 64), r(64, 64)),
    "binary cross entropy": (Fn(F.binary_cross_entropy_with_logits), r(64, 10), r(64, 10)),
    "nll loss": (Fn(lambda x, y: F.nll_loss(F.log_softmax(x, 1), y)), r(64, 10), ids(10, 64)),
    "scale": (Fn(lambda a: a * 2.5), r(64, 64)),
    "concatenate": (Fn(lambda a, b: torch.cat([a, b], 1)), r(8, 8), r(8, 8)),
    "stack": (Fn(lambda a, b: torch.stack([a, b], 1)), r(8, 8), r(8, 8)),
    "upsample bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), r(2, 3, 8, 8)),
    "upsample nearest": (nn.Upsample(scale_factor=2), r(2, 3, 8, 8)),
    "pixel shuffle": (nn.PixelShuffle(2), r(2, 8, 8, 8)),
    "channel shuffle": (Fn(lambda x: x.view(2, 2, 4, 8, 8).transpose(1, 2).reshape(2, 8, 8, 8)), r(2, 8, 8, 8)),
    "reflection pad": (nn.ReflectionPad2d(2), r(2, 3, 8, 8)),
    "zero pad": (Fn(lambda x: F.pad(x, (1, 2, 3, 0))), r(2, 3, 8, 8)),
    "lower triangle": (Fn(torch.tril), r(64, 64)),
    "masked fill": (Fn(lambda x, m: x.masked_fill(m, 0.0)), r(64, 64), r(64, 64) > 0.5),
    "where": (Fn(lambda x, y: torch.where(x > y, x, y)), r(64, 64), r(64, 64)),
    "sort": (Fn(lambda x: x.sort(1)[0]), r(64, 64)),
    "topk": (Fn(lambda x: x.topk(4, 1)[0]), r(64, 64)),
    "one hot": (Fn(lambda i: F.one_hot(i, 10)), ids(10, 64)),
    "outer sum by broadcasting": (Fn(lambda a, b: a[:, None] + b[None, :]), r(32), r(16)),
    "log, exp, sqrt, rsqrt": (Fn(lambda x: x.log() + x.exp() + x.sqrt() + x.rsqrt()), r(64, 64)),
    "sin and cos": (Fn(lambda x: x.sin() * x.cos()), r(64, 64)),
    "clamp between tensors": (Fn(torch.clamp), r(64, 64), r(64, 64), r(64, 64)),
}  # fmt: skip
