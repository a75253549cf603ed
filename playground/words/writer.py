"""A description -> the text of a PyTorch module, and what was understood, assumed and not understood."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playground.words import blocks, layers, windows
from playground.words.layers import Build
from playground.words.request import Request, Step, request_of
from playground.words.scan import Scan
from playground.words.shapes import BATCH, IMAGES, checked, input_shape, shape_text
from playground.words.tokens import Unclear, place, tokens
from playground.words.vocabulary import FUNCTIONS, OTHER_TYPES

LONGEST = 4000  # characters of a description
MOST_PLACES = 20  # of the words that were not understood
EXAMPLES = (
    "linear layer, 1024 in, 4096 out, then GELU, batch 2048, half precision",
    "3x3 convolution from 64 to 128 channels on images of 56x56, padding 1, then batch norm and ReLU",
    "1024x8192 times 8192x512 in bf16, then softmax over the last dimension",
)
SAY = f"Name an operation and its sizes, for example: {EXAMPLES[0]}."
_CODE = re.compile(r"^[ \t]*(?:import torch|from torch|class \w{1,80}\s?[(:]|def \w{1,80}\()", re.MULTILINE)
_PROGRAM = re.compile(r"^[ \t]*program \w{1,80}\s?\(", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True)
class Written:
    """`understood` and `assumed`: sentences for people. `not_understood`: [{text, line, col}], 1-based."""

    module: str
    understood: list[str]
    assumed: list[str]
    not_understood: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def write(text: str) -> Written:
    """The module of a description. The same text always gives the same module. Raises Unclear."""
    _readable(text)
    scan = Scan(tokens(text))
    request = request_of(scan, text)
    places = _places(text, request.unused)
    if not any(step.op not in ("dropout", "flatten") for step in request.steps):
        raise Unclear(*_nothing(text, request), places)
    try:
        build = _built(request)
    except Unclear as e:
        raise Unclear(str(e), e.fix, e.places or places) from None
    return Written(_module(build), build.understood, build.assumed, places)


def _readable(text: str) -> None:
    if not text.strip():
        raise Unclear("There is no description yet.", SAY)
    if _PROGRAM.search(text):
        raise Unclear("This is a μCUTLASS program.", "Paste it in the tab “μCUTLASS program”.")
    if _CODE.search(text):
        raise Unclear("This is Python code.", "Paste it in the tab “PyTorch module”.")
    if len(text) > LONGEST:
        raise Unclear(
            f"The description has {len(text):,} characters; the limit is {LONGEST:,}.",
            "Describe one module in a few sentences, or write it as a PyTorch module.",
        )
    if not _LETTER.search(text):
        raise Unclear("The description has no words.", SAY)
    if not _LATIN.search(text):
        raise Unclear("The rules read English, and this text has no English word.", f"Write it in English. {SAY}")


def _nothing(text: str, request: Request) -> tuple[str, str]:
    if request.facts and not request.unused:
        return "The description has sizes and no operation.", SAY
    return "The description names no operation that the rules know.", f"The rules read English. {SAY}"


def _places(text: str, spans: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """The words of spans, neighbours joined."""
    joined: list[list[int]] = []
    for start, stop in sorted(set(spans)):
        if joined and not text[joined[-1][1] : start].strip(" "):
            joined[-1][1] = max(stop, joined[-1][1])
        else:
            joined.append([start, stop])
    places = [place(text, start, min(stop, start + 80)) for start, stop in joined[:MOST_PLACES]]
    for row in places:
        if row["text"].lower() in OTHER_TYPES:
            row["fix"] = "The types are float32, float16 and bfloat16."
    return places


def _built(request: Request) -> Build:
    b = Build(request)
    _begin(b)
    steps = request.steps
    between = _between(steps)
    if "dtype" not in request.facts:
        b.note("float32")
    for step in steps:
        if id(step) not in between.values():
            _step(b, step, next((s.op for s in steps if between.get(id(step)) == id(s)), None))
            checked(b.shape, "The result")
    if request.facts.get("dtype"):
        b.understood.append(f"in {b.dtype}")
    sizes = " and ".join(shape_text(shape) for _, shape in b.inputs)
    b.understood.append(
        f"{'an input' if len(b.inputs) == 1 else 'inputs'} of {sizes}; a result of {shape_text(b.shape)}"
    )
    return b


def _begin(b: Build) -> None:
    """The input of the module."""
    first = next(s for s in b.request.steps if s.op not in ("dropout", "flatten"))
    if first.op == "matmul":
        a, w = _operands(b, first)
        b.shape = a
        first.attrs |= {"a": a, "b": w, "first": True}
    else:
        b.shape = input_shape(b.request, b.note)
        b.images = len(b.shape) > 2 and (
            "image" in b.facts or "channels" in b.facts or next((s.op in IMAGES for s in b.request.steps if s.op in
            IMAGES | {"linear", "mlp", "gated", "attention", "transformer", "layer_norm", "rms_norm"}), False)
        )  # fmt: skip
    b.inputs.append(("x", b.shape))


def _operands(b: Build, step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of the two matrices of a product that comes first."""
    attrs, facts = step.attrs, b.facts
    operands = [tuple(s) for s in attrs.get("operands", ())]
    if attrs.pop("transposed", None):
        attrs["t2"] = True
        b.note("the second matrix is transposed")
    m, n, k = (attrs.get(x) for x in "mnk")
    if not operands and (m or n or k):
        side = m or n or k
        m, n, k = m or side, n or side, k or side
        operands = [(k, m) if attrs.get("t1") else (m, k), (n, k) if attrs.get("t2") else (k, n)]
    if not operands:
        side = facts.get("features") or facts.get("rows") or 4096
        if side == 4096:
            b.note("matrices of 4096x4096")
        operands = [(side, side), (side, side)]
    if len(operands) == 1:
        (a,) = operands
        inner = a[-2] if attrs.get("t1") else a[-1]
        operands.append((*a[:-2], inner, inner))
        b.note(f"the second matrix is {shape_text(operands[1])}")
    a, w = operands[:2]
    batch = facts.get("batch")
    if batch is None and attrs.get("batched") and len(a) == 2 and len(w) == 2:
        batch = BATCH
        b.note(f"a batch of {BATCH}")
    if batch is not None:
        a, w = (((batch, *s) if len(s) == 2 else s) for s in (a, w))
    if len(a) > 2 and len(w) > 2 and a[:-2] != w[:-2]:
        raise Unclear(f"The batches of {shape_text(a)} and {shape_text(w)} differ.", "Make the batches equal.")
    return checked(a, "The first matrix"), checked(w, "The second matrix")


def _between(steps: list[Step]) -> dict[int, int]:
    """Perceptron -> the activation that the description names right behind it for the place between its layers."""
    between = {}
    for step, after in pairwise(steps):
        if step.op in ("mlp", "gated", "transformer") and after.op in layers.CALLS and after.op != "neg":
            between[id(step)] = id(after)
    return between


def _step(b: Build, step: Step, activation: str | None) -> None:
    op = step.op
    if op == "matmul":
        if "a" not in step.attrs:
            _onward(b, step)
        layers.matmul(b, step)
    elif op == "mlp":
        blocks.perceptron(b, step, activation)
    elif op == "gated":
        blocks.gated(b, step, activation)
    elif op == "transformer":
        blocks.transformer(b, step, activation)
    elif op in FUNCTIONS:
        layers.function(b, step)
    elif op == "dropout":
        b.note("dropout does nothing in inference, so it is left out")
    elif op == "flatten":
        b.images = b.images or len(b.shape) > 2
        b.flat()
    else:
        _RULES[op](b, step)


def _onward(b: Build, step: Step) -> None:
    """A product whose first matrix is the value before it."""
    operands = [tuple(s) for s in step.attrs.get("operands", ())]
    w = operands[-1] if operands else None
    if w is None:
        w = (b.shape[-1], step.attrs.get("n") or b.shape[-1])
        b.note(f"the second matrix of “{step.text}” is {shape_text(w)}")
    step.attrs |= {"a": b.shape, "b": w, "t2": bool(step.attrs.get("t2") or step.attrs.get("transposed"))}


_RULES = {
    "linear": layers.linear, "conv": windows.convolution, "separable": blocks.separable, "max_pool": windows.pool,
    "avg_pool": windows.pool, "attention": blocks.attention, "residual": layers.residual, "bias": layers.bias,
    "triu": layers.triangle, "tril": layers.triangle, "softmax": layers.softmax, "log_softmax": layers.softmax,
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"), windows.norm),
    **dict.fromkeys(("sum", "mean", "max", "min", "logsumexp"), layers.reduction),
    **dict.fromkeys(("add", "sub", "mul", "div"), layers.arithmetic),
}  # fmt: skip


def _module(b: Build) -> str:
    title = "; ".join(b.understood[:-1])
    title = title if len(title) <= 100 else title[: title.rfind(" ", 0, 100)] + " ..."
    uses = "\n".join((*b.init, *b.forward))
    kind = "" if b.dtype == "float32" else f", dtype=torch.{b.dtype}"
    draw = "rand" if b.positive else "randn"
    sizes = [", ".join(map(str, shape)) for _, shape in b.inputs]
    lines = [f'"""{title[:1].upper()}{title[1:]}."""', "", "import torch", "import torch.nn as nn"]
    lines += ["import torch.nn.functional as F"] if "F." in uses else []
    lines += ["", "", "class Model(nn.Module):"]
    if b.init:
        lines += ["    def __init__(self):", "        super().__init__()", *(f"        {row}" for row in b.init), ""]
    lines += [f"    def forward(self, {', '.join(name for name, _ in b.inputs)}):"]
    lines += [f"        {row}" for row in b.forward] + ["        return x", "", ""]
    tensors = ", ".join(f"torch.{draw}({size}{kind})" for size in sizes)
    lines += ["def get_inputs():", f"    return [{tensors}]", "", ""]
    lines += ["def get_init_inputs():", "    return []", ""]
    return "\n".join(lines)
