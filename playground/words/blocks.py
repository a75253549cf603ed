"""Blocks of several layers -> the lines of their module: perceptron, gated unit, attention, separable convolution."""

from __future__ import annotations

from playground.words.layers import CALLS, Build, bias_argument
from playground.words.request import Step
from playground.words.shapes import HEADS, checked, shape_text
from playground.words.tokens import Unclear
from playground.words.windows import convolution


def _widths(b: Build, step: Step, times: int | float) -> tuple[int, int]:
    """(hidden, out) of a perceptron or gated unit."""
    attrs, width = step.attrs, b.shape[-1]
    hidden = attrs.get("intermediate")
    if hidden is None and "hidden" in attrs:
        hidden = attrs["hidden"]
    elif "hidden" in attrs and attrs["hidden"] != width:
        raise Unclear(
            f"“{step.text}” has the hidden size {attrs['hidden']}, and the value before it has {width} features.",
            f"Write the hidden size {width}, or an input with {attrs['hidden']} features.",
        )
    if hidden is None:
        hidden = int(width * attrs.get("expansion", times))
        b.note(f"the hidden layer has {hidden} features")
    return hidden, attrs.get("out") or width


def perceptron(b: Build, step: Step, activation: str | None) -> None:
    """Linear layers with an activation between them. `activation`: as the description names it, or None."""
    b.flat()
    chain = list(step.attrs.get("chain", ()))
    if chain and chain[0] != b.shape[-1]:
        raise Unclear(
            f"“{step.text}” takes {chain[0]} features, and the value before it has {b.shape[-1]}.",
            f"Begin the chain with {b.shape[-1]}.",
        )
    if len(chain) < 3:
        hidden, out = _widths(b, step, 4)
        chain = [b.shape[-1], hidden, chain[1] if len(chain) == 2 else out]
    if activation is None:
        activation = "gelu"
        b.note("the activation between the linear layers is GELU")
    bias = bias_argument(b, step)
    for i in range(1, len(chain)):
        name = b.layer("linear", f"nn.Linear({b.typed(chain[i - 1], chain[i], bias)})")
        b.set(f"{name}(x)", checked((*b.shape[:-1], chain[i]), "The result"))
        if i + 1 < len(chain):
            b.set(CALLS[activation].format(x="x"))
    b.understood.append(f"a perceptron {' -> '.join(map(str, chain))} with {activation.replace('_', ' ')}")


def gated(b: Build, step: Step, activation: str | None) -> None:
    """down(act(gate(x)) * up(x)): SwiGLU and its relatives (Shazeer, 2020), without bias unless it is asked for."""
    b.flat()
    width, fn = b.shape[-1], activation or step.attrs.get("fn", "silu")
    hidden, out = _widths(b, step, 4)
    bias = "" if step.attrs.get("bias") else "bias=False"
    gate = b.layer("gate", f"nn.Linear({b.typed(width, hidden, bias)})")
    up = b.layer("up", f"nn.Linear({b.typed(width, hidden, bias)})")
    down = b.layer("down", f"nn.Linear({b.typed(hidden, out, bias)})")
    b.set(f"{down}({CALLS[fn].format(x=f'{gate}(x)')} * {up}(x))", checked((*b.shape[:-1], out), "The result"))
    b.understood.append(f"a gated unit {width} -> {hidden} -> {out} with {fn}")
    if step.attrs.get("bias") is None:
        b.note("the layers of the gated unit have no bias")


def attention(b: Build, step: Step) -> None:
    """Self-attention by softmax, with projections before and behind it."""
    if b.images or len(b.shape) != 3:
        raise Unclear(
            f"“{step.text}” needs sequences, and the value before it is {shape_text(b.shape)}.",
            "Write for example batch 8, sequence length 1024, 1024 features.",
        )
    attrs, (batch, seq, width) = step.attrs, b.shape
    heads, size = attrs.get("heads"), attrs.get("head_dim")
    if heads is None:
        heads = width // size if size else next(h for h in (HEADS, 8, 4, 2, 1) if width % h == 0)
        b.note(f"the attention has {heads} heads")
    if not isinstance(heads, int) or heads < 1 or width % heads or (size is not None and heads * size != width):
        shares = f"{heads} heads of {size}" if size else f"{heads} heads"
        raise Unclear(
            f"{shares} do not share {width} features evenly.",
            "Choose heads times head size equal to the number of features.",
        )
    size = width // heads
    checked((batch, heads, seq, seq), "The attention matrix")
    bias = bias_argument(b, step)
    q, k, v, out = (b.layer(n, f"nn.Linear({b.typed(width, width, bias)})") for n in ("q", "k", "v", "out"))
    split = f".view({batch}, {seq}, {heads}, {size}).transpose(1, 2)"
    b.forward += [f"{letter} = {layer}(x){split}" for letter, layer in zip("qkv", (q, k, v), strict=True)]
    b.forward += [f"scores = torch.matmul(q, k.transpose(-2, -1)) * {size}**-0.5"]
    if attrs.get("causal"):
        kind = "" if b.dtype == "float32" else f", dtype=torch.{b.dtype}"
        mask = f'torch.full(({seq}, {seq}), float("-inf"){kind}).triu(1)'
        name = b.name("mask")
        b.init.append(f'self.register_buffer("{name}", {mask}, persistent=False)')
        b.forward += [f"scores = scores + self.{name}"]
    b.forward += ["x = torch.matmul(torch.softmax(scores, dim=-1), v)"]
    b.set(f"{out}(x.transpose(1, 2).reshape({batch}, {seq}, {width}))")
    causal = "causal " if attrs.get("causal") else ""
    b.understood.append(f"{causal}self-attention with {heads} heads of {size}, and its projections")


def transformer(b: Build, step: Step, activation: str | None) -> None:
    """x + attention(norm(x)), then x + perceptron(norm(x)): layer norm first."""
    if b.images or len(b.shape) != 3:
        attention(b, step)  # reports the shape
    b.note("layer norm stands before attention and perceptron, with a residual around each")
    for part in ("attention", "perceptron"):
        skip = b.name("skip")
        b.forward.append(f"{skip} = x")
        b.set(f"{b.layer('norm', f'nn.LayerNorm({b.typed(b.shape[-1])})')}(x)")
        if part == "attention":
            attention(b, step)
        else:
            perceptron(b, Step("mlp", {k: v for k, v in step.attrs.items() if k in _MLP}, step.text), activation)
        b.set(f"x + {skip}")
    b.understood.append("a residual around both")


_MLP = ("intermediate", "hidden", "expansion", "bias")


def separable(b: Build, step: Step) -> None:
    """A depthwise convolution, then a pointwise one."""
    attrs = dict(step.attrs)
    chain = attrs.pop("chain", ())
    out = attrs.pop("out", None) or (chain[1] if len(chain) > 1 else None)
    bias = {"bias": attrs["bias"]} if "bias" in attrs else {}
    convolution(b, Step("conv", {**attrs, "depthwise": True}, step.text))
    convolution(b, Step("conv", {"kernel": (1,), **bias, **({"out": out} if out else {})}, step.text))
