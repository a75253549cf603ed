"""The 59 problems as op graphs, built by hand from their descriptions, with the times one H200 gave (see data).

This is a second, independent source of graphs beside the tracer: a test of `sol` that needs no torch.
"""

import json
import re
from pathlib import Path

from sol.graph import Op, OpGraph, Tensor

SUITE = json.loads((Path(__file__).parent / "data" / "suite59.json").read_text())
PROBLEMS = {p["id"]: p for p in SUITE["problems"]}


class Builder:
    """Writes an op graph as one writes a module: b.input(...), b.param(...), b.op("relu", x)."""

    def __init__(self, dtype="f32"):
        self.dtype, self.tensors, self.ops, self.inputs = dtype, {}, [], []

    def _tensor(self, name, shape, kind, dtype=None):
        self.tensors[name] = Tensor(name, tuple(shape), dtype or self.dtype, kind)
        return name

    def input(self, name, *shape, dtype=None):
        self.inputs.append(name)
        return self._tensor(name, shape, "input", dtype)

    def param(self, name, *shape):
        return self._tensor(name, shape, "parameter")

    def shape(self, name):
        return self.tensors[name].shape

    def op(self, op, *inputs, shape=None, dtype=None, **attrs):
        name = f"{op}_{len(self.ops)}"
        if shape is None:
            shape = max((self.shape(i) for i in inputs), key=lambda s: (len(s), s))
        self._tensor(name, shape, "intermediate", dtype)
        self.ops.append(Op(name, op, tuple(inputs), (name,), attrs))
        return name

    def linear(self, x, out):
        k, i = self.shape(x)[-1], len(self.ops)
        return self.op(
            "linear", x, self.param(f"w{i}", out, k), self.param(f"b{i}", out), shape=(*self.shape(x)[:-1], out)
        )

    def matmul(self, a, b):
        sa, sb = self.shape(a), self.shape(b)
        return self.op("matmul", a, b, shape=(*sa[:-1], sb[-1]))

    def t(self, x):
        *head, m, n = self.shape(x)
        return self.op("t", x, shape=(*head, n, m))

    def done(self, *outputs):
        return OpGraph(self.tensors, tuple(self.ops), tuple(self.inputs), outputs)


_ATTRS = {"leaky_relu": {"negative_slope": 0.1}, "hardtanh": {"min_val": -2.0, "max_val": 2.0}}


def _tail(b, y, first, step):
    """One step of a level-2 tail, in the words of the suite file."""
    word = step.split()[0]
    shape = b.shape(y)
    if step in ("-2", "/2", "/10", "x2", "x1.5", "x0.5"):
        return b.op({"-": "sub", "/": "div", "x": "mul"}[step[0]], y, other=float(step[1:]))
    if word in ("relu", "leaky_relu", "mish", "sigmoid", "gelu", "hardtanh"):
        return b.op(word, y, **_ATTRS.get(word, {}))
    if step == "swish":
        return b.op("mul", b.op("sigmoid", y), y)
    if step == "+itself":
        return b.op("add", y, y)
    if step == "+ its own unscaled value":
        return b.op("add", y, first)
    if step.startswith("clamp"):
        return b.op("clamp", y, min=-10.0, max=10.0)
    if step.startswith("logsumexp"):
        return b.op("logsumexp", y, shape=(shape[0], 1), dim=[1], keepdim=True)
    if step == "y*mish(y)":
        return b.op("mul", y, b.op("mish", y))
    if step.startswith("sum over"):
        return b.op("sum", y, shape=(shape[0], 1), dim=[1], keepdim=True)
    if step == "x vector" or step == "+ vector":
        return b.op("mul" if step[0] == "x" else "add", y, b.param(f"v{len(b.ops)}", shape[-1]), shape=shape)
    if step.startswith("batch norm"):
        stats = [b.param(f"{n}{len(b.ops)}", shape[1]) for n in ("gamma", "beta", "mean", "var")]
        return b.op("batch_norm", y, *stats, shape=shape, training=False)
    if step.startswith("group norm"):
        affine = [b.param(f"{n}{len(b.ops)}", shape[1]) for n in ("gamma", "beta")]
        return b.op("group_norm", y, *affine, shape=shape, num_groups=int(step.split()[-1]))
    if step.startswith("instance norm"):
        image = b.op(
            "unsqueeze",
            b.op("unsqueeze", y, shape=(shape[0], 1, shape[1]), dim=1),
            dim=1,
            shape=(shape[0], 1, 1, shape[1]),
        )
        image = b.op("instance_norm", image, use_input_stats=True)
        return b.op("squeeze", b.op("squeeze", image, shape=(shape[0], 1, shape[1]), dim=1), shape=shape, dim=1)
    if step in ("+y", "xy"):
        return b.op("add" if step[0] == "+" else "mul", y, "y")
    raise KeyError(step)


def gemm_problem(pid):
    """The op graph of a problem of the gemm family."""
    p = PROBLEMS[pid]
    b = Builder()
    for name, dims in re.findall(r"(\w+)\[([\d,]+)\]", p["inputs"]):
        b.input(name, *(int(d) for d in dims.split(",")))
    computes = p["computes"]
    if pid.startswith("L1"):
        a, w = list(b.inputs)
        if computes.startswith("einsum"):
            return b.done(b.matmul(a, w))
        y = b.matmul(b.t(a) if "A.T" in computes else a, b.t(w) if "B.T" in computes else w)
        if computes[:4] in ("triu", "tril"):
            y = b.op(computes[:4], y, diagonal=0)
        return b.done(y)
    y = first = "x"
    for step in computes.split("; "):
        if step.startswith("linear"):
            y = first = b.linear(y, int(step.split("->")[1]))
        else:
            y = _tail(b, y, first, step)
    return b.done(y)


GEMM_IDS = tuple(i for i, p in PROBLEMS.items() if p["family"] == "gemm")
