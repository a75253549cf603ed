"""Modules in the manner of KernelBench's levels 2 and 3, written for these tests: operations with tails, blocks of
networks, small networks. What torch's own counter cannot count has its FLOPs in `BY_HAND`, as a formula.
"""

import math

import torch
from modules import PRODUCTS, SIMPLE, Fn, ids, r
from torch import nn

F = nn.functional

# ---- level 2: an operation and its tail ---------------------------------------------------------------------------


def tail(first, fn, **children):
    return Fn(lambda s, x, *more: fn(s, s.first(x), *more), first=first, **children)


TAILS = {
    "conv, relu, bias": (tail(nn.Conv2d(3, 8, 3), lambda s, y: F.relu(y) + s.b, b=r(8, 1, 1)), r(2, 3, 16, 16)),
    "conv, group norm, hardswish": (
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(4, 8), nn.Hardswish()),
        r(2, 4, 16, 16),
    ),
    "conv, instance norm, divide": (tail(nn.Conv2d(4, 8, 3), lambda s, y: F.instance_norm(y) / 2), r(2, 4, 16, 16)),
    "conv, norm, pool": (
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        r(2, 4, 16, 16),
    ),
    "conv, subtract, hardswish, pool, mish": (
        tail(nn.Conv2d(3, 8, 3), lambda s, y: F.mish(F.max_pool2d(F.hardswish(y - 0.5), 2))),
        r(2, 3, 16, 16),
    ),
    "conv, min, tanh, tanh": (
        tail(nn.Conv2d(3, 8, 3), lambda s, y: y.min(1, keepdim=True)[0].tanh().tanh()),
        r(2, 3, 16, 16),
    ),
    "conv3d, softmax, two pools": (
        tail(nn.Conv3d(3, 8, 3), lambda s, y: F.max_pool3d(F.max_pool3d(y.softmax(1), 2), 2)),
        r(1, 3, 14, 14, 14),
    ),
    "conv3d, divide, pool, bias, sum": (
        tail(
            nn.Conv3d(3, 8, 3),
            lambda s, y: (F.max_pool3d(y / 2, 2).mean((2, 3, 4), True) + s.b).sum(1),
            b=r(8, 1, 1, 1),
        ),
        r(1, 3, 10, 10, 10),
    ),
    "transposed conv, bias, clamp": (
        tail(nn.ConvTranspose2d(4, 8, 3), lambda s, y: ((y + s.b).clamp(0, 1) * 2).clamp(0, 1) / 2, b=r(8, 1, 1)),
        r(2, 4, 8, 8),
    ),
    "transposed conv, logsumexp, sigmoid": (
        tail(nn.ConvTranspose3d(3, 8, 3), lambda s, y: y.logsumexp(1, keepdim=True) * torch.sigmoid(y + 3) / 6),
        r(1, 3, 6, 6, 6),
    ),
    "transposed conv, layer norm, gelu": (
        nn.Sequential(nn.ConvTranspose3d(3, 8, 3), nn.AvgPool3d(2), nn.LayerNorm(4), nn.GELU()),
        r(1, 3, 6, 6, 6),
    ),
    "linear, scale, leaky relu": (tail(nn.Linear(64, 32), lambda s, y: F.leaky_relu(y * 2, 0.1)), r(8, 64)),
    "linear, swish, scale": (tail(nn.Linear(64, 32), lambda s, y: torch.sigmoid(y) * y * 0.5), r(8, 64)),
    "linear, group norm, hardtanh": (nn.Sequential(nn.Linear(64, 32), nn.GroupNorm(4, 32), nn.Hardtanh()), r(8, 64)),
    "linear, batch norm, gelu, relu": (
        nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.GELU(), nn.ReLU()),
        r(8, 64),
    ),
    "linear, subtract, multiply, relu": (tail(nn.Linear(64, 32), lambda s, y: F.relu((y - 2) * 1.5)), r(8, 64)),
    "linear, dropout, softmax": (nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.2), nn.Softmax(1)), r(8, 64)),
    "linear, sigmoid, sum": (tail(nn.Linear(64, 32), lambda s, y: y.sigmoid().sum(1, keepdim=True)), r(8, 64)),
    "linear, logsumexp, mish": (
        tail(nn.Linear(64, 32), lambda s, y: (lambda z: z * F.mish(z))((y + y).clamp(-10, 10).logsumexp(1, True))),
        r(8, 64),
    ),
    "linear, residual of two": (tail(nn.Linear(64, 32), lambda s, y, z: (y + z) * z), r(8, 64), r(8, 32)),
    "linear, max pool, sum, scale": (
        tail(nn.Linear(64, 32), lambda s, y: F.max_pool1d(y[:, None], 2)[:, 0].sum(1) * 0.5),
        r(8, 64),
    ),
    "bmm, instance norm, residual": (
        tail(nn.Linear(64, 32), lambda s, y, z: (F.instance_norm(y[:, None, None])[:, 0, 0] + z) * z),
        r(8, 64),
        r(8, 32),
    ),
    "matmul, add, relu, in place": (Fn(lambda a, b, c: (a @ b).add_(c).relu_()), r(8, 16), r(16, 4), r(4)),
}

# ---- level 3: networks and their blocks ---------------------------------------------------------------------------


def conv_norm(i, o, k=1, **more):
    return nn.Sequential(nn.Conv2d(i, o, k, padding=k // 2, bias=False, **more), nn.BatchNorm2d(o), nn.ReLU())


def causal(s, x):
    b, t, c = x.shape
    q, k, v = (y.view(b, t, 4, c // 4).transpose(1, 2) for y in s.qkv(x).split(c, 2))
    weights = (q @ k.transpose(-2, -1) / math.sqrt(c // 4)).masked_fill(s.mask[:t, :t] == 0, float("-inf"))
    return s.out((weights.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


def windows(x):
    return x.view(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 16)


def scan(s, x):
    """A selective state space in its quadratic form: a lower triangle of decays times scores."""
    decay = F.softplus(s.rate(x)).cumsum(1)  # [b, t, d]
    mask = torch.tril(torch.exp(decay[:, :, None] - decay[:, None])[..., 0])
    return torch.einsum("bts,bsd->btd", mask * torch.einsum("btn,bsn->bts", s.c(x), s.b(x)), x)


def experts(s, x):
    """Two experts of four a token, all computed densely and weighted, as small models do it."""
    weight, chosen = s.gate(x).softmax(-1).topk(2, -1)
    gates = torch.zeros(x.shape[0], 4).scatter(1, chosen, weight)
    return torch.einsum("te,ted->td", gates, torch.einsum("td,edf->tef", x, s.w1).relu() @ s.w2)


NETWORKS = {
    "mlp": (nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)), r(8, 64)),
    "swiglu": (
        Fn(lambda s, x: s.d(F.silu(s.g(x)) * s.u(x)), g=nn.Linear(32, 64), u=nn.Linear(32, 64), d=nn.Linear(64, 32)),
        r(8, 32),
    ),
    "lenet": (
        nn.Sequential(
            nn.Conv2d(1, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        ),
        r(2, 1, 28, 28),
    ),
    "vgg": (
        nn.Sequential(
            conv_norm(3, 8, 3),
            nn.MaxPool2d(2),
            conv_norm(8, 16, 3),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 10),
        ),
        r(2, 3, 16, 16),
    ),
    "residual block": (
        Fn(
            lambda s, x: F.relu(s.b(s.a(x)) + s.skip(x)),
            a=conv_norm(8, 16, 3, stride=2),
            b=nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)),
            skip=nn.Conv2d(8, 16, 1, stride=2),
        ),
        r(2, 8, 16, 16),
    ),
    "inverted residual": (
        Fn(
            lambda s, x: x + s.f(x),
            f=nn.Sequential(conv_norm(8, 48), conv_norm(48, 48, 3, groups=48), nn.Conv2d(48, 8, 1)),
        ),
        r(2, 8, 16, 16),
    ),
    "dense block": (
        Fn(
            lambda s, x: (lambda y: torch.cat((y, s.b(y)), 1))(torch.cat((x, s.a(x)), 1)),
            a=conv_norm(8, 4, 3),
            b=conv_norm(12, 4, 3),
        ),
        r(2, 8, 16, 16),
    ),
    "inception": (
        Fn(
            lambda s, x: torch.cat((s.a(x), s.b(x), s.c(F.max_pool2d(x, 3, 1, 1))), 1),
            a=conv_norm(8, 4),
            b=nn.Sequential(conv_norm(8, 4), conv_norm(4, 8, 3)),
            c=conv_norm(8, 4),
        ),
        r(2, 8, 16, 16),
    ),
    "fire": (
        Fn(
            lambda s, x: (lambda y: torch.cat((s.a(y), s.b(y)), 1))(s.s(x)),
            s=conv_norm(8, 4),
            a=conv_norm(4, 8),
            b=conv_norm(4, 8, 3),
        ),
        r(2, 8, 16, 16),
    ),
    "squeeze and excite": (
        Fn(
            lambda s, x: x * s.f(x.mean((2, 3)))[:, :, None, None],
            f=nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8), nn.Sigmoid()),
        ),
        r(2, 8, 16, 16),
    ),
    "unet": (
        Fn(
            lambda s, x: (lambda a: s.o(torch.cat((a, s.u(s.d(F.max_pool2d(a, 2)))), 1)))(s.e(x)),
            e=conv_norm(3, 8, 3),
            d=conv_norm(8, 16, 3),
            u=nn.ConvTranspose2d(16, 8, 2, stride=2),
            o=nn.Conv2d(16, 1, 1),
        ),
        r(1, 3, 16, 16),
    ),
    "attention by hand": (
        Fn(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v),
        r(2, 4, 32, 16),
        r(2, 4, 48, 16),
        r(2, 4, 48, 16),
    ),
    "causal self-attention": (
        Fn(causal, qkv=nn.Linear(32, 96), out=nn.Linear(32, 32), mask=torch.tril(torch.ones(16, 16))),
        r(2, 16, 32),
    ),
    "relu attention": (
        Fn(lambda s, x: (lambda q, k, v: F.relu(q @ k.mT / 4) @ v)(*s.qkv(x).chunk(3, -1)), qkv=nn.Linear(16, 48)),
        r(2, 8, 16),
    ),
    "window attention": (
        Fn(lambda s, x: (lambda w: (w @ w.mT).softmax(-1) @ w)(windows(s.f(x).view(1, 8, 8, 16))), f=nn.Linear(16, 16)),
        r(1, 8, 8, 16),
    ),
    "vision patches": (
        Fn(
            lambda s, x: s.head(s.f(s.p(x).flatten(2).transpose(1, 2) + s.pos).mean(1)),
            p=nn.Conv2d(3, 32, 4, stride=4),
            f=nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)),
            head=nn.Linear(32, 10),
            pos=r(1, 16, 32),
        ),
        r(2, 3, 16, 16),
    ),
    "state space scan": (Fn(scan, rate=nn.Linear(16, 16), b=nn.Linear(16, 8), c=nn.Linear(16, 8)), r(2, 12, 16)),
    "mixture of experts": (Fn(experts, gate=nn.Linear(16, 4), w1=r(4, 16, 32), w2=r(4, 32, 16)[0]), r(8, 16)),
    "netvlad": (
        Fn(
            lambda s, x: (lambda a: F.normalize((a.mT @ x - a.sum(1)[..., None] * s.centres), dim=2).flatten(1))(
                s.f(x).softmax(-1)
            ),
            f=nn.Linear(16, 8),
            centres=r(8, 16),
        ),
        r(2, 12, 16),
    ),
    "recurrent cell": (
        Fn(
            lambda s, x, h: (lambda n: (s.o(n), n))(torch.tanh(s.h(torch.cat((x, h), 1)))),
            h=nn.Linear(48, 32),
            o=nn.Linear(32, 8),
        ),
        r(4, 16),
        r(4, 32),
    ),
    "tied autoencoder": (Fn(lambda s, x: F.relu(x @ s.w) @ s.w.T, w=r(64, 16)), r(8, 64)),
}

# ---- what torch's counter does not count, or counts otherwise -----------------------------------------------------

BY_HAND = {
    # two products of every score; torch counts attention on a GPU only
    "attention": (
        (Fn(F.scaled_dot_product_attention), r(2, 4, 32, 16), r(2, 4, 48, 16), r(2, 4, 48, 16)),
        2 * 2 * 4 * 32 * 48 * 32,
    ),
    # the lower triangle alone, its diagonal included
    "causal attention": (
        (
            Fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
            r(2, 4, 32, 16),
            r(2, 4, 32, 16),
            r(2, 4, 32, 16),
        ),
        2 * 2 * 4 * (32 * 33 // 2) * 32,
    ),
    # every weight meets every step of every sequence
    "lstm": ((nn.LSTM(16, 32, 2, batch_first=True), r(4, 10, 16)), 2 * 4 * 10 * 4 * 32 * (16 + 32 + 32 + 32)),
    "gru, both ways": ((nn.GRU(16, 32, bidirectional=True), r(10, 4, 16)), 2 * 2 * 4 * 10 * 3 * 32 * (16 + 32)),
    "rnn": ((nn.RNN(16, 32), r(10, 4, 16)), 2 * 4 * 10 * 32 * (16 + 32)),
    "bilinear": ((nn.Bilinear(8, 6, 4), r(5, 8), r(5, 6)), 2 * 5 * 4 * 8 * 6 + 2 * 5 * 4 * 6),
    # the products' part of |a - b|^2 = a.a - 2 a.b + b.b
    "pairwise distances": ((Fn(lambda a, b: torch.cdist(a, b)), r(32, 16), r(48, 16)), 2 * 32 * 48 * 16),
    "matrix by vector": ((Fn(torch.mv), r(32, 48), r(48)), 2 * 32 * 48),
    "dot": ((Fn(torch.dot), r(64), r(64)), 2 * 64),
    "embedding": ((nn.Embedding(1000, 64), ids(1000, 32)), 0),
}

COUNTED = PRODUCTS | TAILS | NETWORKS
EVERY = COUNTED | SIMPLE | {name: case for name, (case, _) in BY_HAND.items()}
