"""Convolutions, pools and normalisations -> the lines of their module."""

from __future__ import annotations

import math

from playground.words.layers import Build, brief, need_images, window
from playground.words.request import Step
from playground.words.shapes import checked, shape_text
from playground.words.tokens import Unclear


def convolution(b: Build, step: Step) -> None:
    attrs = step.attrs
    if b.images and "nd" not in attrs:
        attrs["nd"] = b.axes
    need_images(b, step)
    n, into = b.axes, b.shape[1]
    transposed, depthwise = bool(attrs.get("transposed")), bool(attrs.get("depthwise"))
    chain = attrs.get("chain", ())
    _same_channels(b, step, attrs.get("in") or (chain[0] if chain else into))
    out = attrs.get("out") or (chain[1] if len(chain) > 1 else None)
    if out is None:
        out = into
        if not depthwise:
            b.note(f"the convolution keeps {into} channels")
    groups = into if depthwise else attrs.get("groups") or (8 if attrs.get("grouped") else 1)
    if attrs.get("grouped") and "groups" not in attrs:
        b.note("the convolution has 8 groups")
    _divides(step, groups, into, "input")
    _divides(step, groups, out, "output")
    if "kernel" not in attrs:
        b.note(f"the kernel is {'x'.join(['3'] * n)}")
    kernel, stride, dilation = (window(b, step, k, d) for k, d in (("kernel", 3), ("stride", 1), ("dilation", 1)))
    if "padding" not in attrs and max(kernel) > 1:
        b.note("no padding")
    padding = _padding(b, step, kernel, dilation, stride)
    extra = window(b, step, "output_padding", 0)
    more = [f"stride={brief(stride)}"] if set(stride) != {1} else []
    more += [f"padding={brief(padding)}"] if set(padding) != {0} else []
    more += [f"output_padding={brief(extra)}"] if transposed and set(extra) != {0} else []
    more += [f"dilation={brief(dilation)}"] if set(dilation) != {1} else []
    more += [f"groups={groups}"] if groups > 1 else []
    if attrs.get("bias") is None:
        b.note("layers have a bias, as PyTorch's do")
    more += ["bias=False"] if attrs.get("bias") is False else []
    sizes = []
    for i, size in enumerate(b.shape[2:]):
        reach = dilation[i] * (kernel[i] - 1)
        if transposed:
            sizes.append((size - 1) * stride[i] - 2 * padding[i] + reach + extra[i] + 1)
        else:
            sizes.append((size + 2 * padding[i] - reach - 1) // stride[i] + 1)
        if sizes[-1] < 1:
            raise Unclear(
                f"The kernel of “{step.text}” is larger than its images: {shape_text(kernel)} on "
                f"{shape_text(b.shape[2:])}.",
                "Choose larger images, a smaller kernel, or more padding.",
            )
    kind = f"nn.Conv{'Transpose' if transposed else ''}{n}d"
    name = b.layer("conv", f"{kind}({b.typed(into, out, brief(kernel), *more)})")
    b.set(f"{name}(x)", checked((b.shape[0], out, *sizes), "The result"))
    what = "transposed convolution" if transposed else "depthwise convolution" if depthwise else "convolution"
    size = "x".join(map(str, kernel)) if n > 1 else f"{kernel[0]}-wide"
    b.understood.append(f"a {size} {n}-D {what} from {into} to {out} channels{', ' if more else ''}{', '.join(more)}")


def _padding(b: Build, step: Step, kernel: tuple, dilation: tuple, stride: tuple) -> tuple[int, ...]:
    if step.attrs.get("padding") != "same":
        return window(b, step, "padding", 0)
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if any(r % 2 for r in reach):
        error = f"Same padding of “{step.text}” with an even kernel pads its sides unevenly."
        raise Unclear(error, "Choose an odd kernel, or write padding 1.")
    if set(stride) != {1}:
        b.note("same padding means half of the kernel on each side; the stride still shrinks the images")
    return tuple(r // 2 for r in reach)


def _same_channels(b: Build, step: Step, into: int) -> None:
    if into != b.shape[1]:
        raise Unclear(
            f"“{step.text}” takes {into} channels, and the value before it has {b.shape[1]} ({shape_text(b.shape)}).",
            f"Write a convolution from {b.shape[1]} channels, or change the one before it.",
        )


def _divides(step: Step, groups: int, channels: int, which: str) -> None:
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise Unclear(
            f"{groups} groups do not divide {channels} {which} channels of “{step.text}”.",
            "Choose a number of groups that divides the channels.",
        )


def pool(b: Build, step: Step) -> None:
    attrs, how = step.attrs, step.op.partition("_")[0]
    if b.images and "nd" not in attrs:
        attrs["nd"] = b.axes
    need_images(b, step)
    n = b.axes
    words = {"max": "max", "avg": "average"}[how]
    if attrs.get("whole"):
        b.set(f"F.adaptive_{how}_pool{n}d(x, 1)", (*b.shape[:2], *[1] * n))
        b.understood.append(f"global {words} pooling")
        return
    if "kernel" not in attrs:
        b.note(f"the window of the pool is {'x'.join(['2'] * n)}")
    kernel = window(b, step, "kernel", 2)
    attrs.setdefault("stride", kernel)
    stride, padding, dilation = (window(b, step, k, d) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1)))
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise Unclear(
            f"The padding of “{step.text}” is more than half of its window {shape_text(kernel)}.",
            "Choose a smaller padding.",
        )
    if how == "avg" and set(dilation) != {1}:
        raise Unclear("Average pooling has no dilation.", "Leave the dilation out, or write max pooling.")
    sizes = tuple(
        (s + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i, s in enumerate(b.shape[2:])
    )
    if min(sizes) < 1:
        raise Unclear(
            f"The window of “{step.text}” is larger than its images: {shape_text(kernel)} on "
            f"{shape_text(b.shape[2:])}.",
            "Choose larger images or a smaller window.",
        )
    more = [f"stride={brief(stride)}"] if stride != kernel else []
    more += [f"padding={brief(padding)}"] if set(padding) != {0} else []
    more += [f"dilation={brief(dilation)}"] if set(dilation) != {1} else []
    b.set(f"F.{how}_pool{n}d({', '.join(['x', brief(kernel), *more])})", (*b.shape[:2], *sizes))
    b.understood.append(f"{words} pooling {'x'.join(map(str, kernel))}{', ' if more else ''}{', '.join(more)}")


def norm(b: Build, step: Step) -> None:
    op = step.op
    if op in ("layer_norm", "rms_norm"):
        shape = b.shape[1:] if b.images else b.shape[-1:]
        if b.images:
            b.note(f"{op.replace('_', ' ')} goes over channels and positions")
        size = str(shape[0]) if len(shape) == 1 else str(list(shape))
        kind = "LayerNorm" if op == "layer_norm" else "RMSNorm"
        eps = "eps=1e-6" if op == "rms_norm" else ""
        if eps:
            b.note("RMS norm has eps 1e-6")
        name = b.layer("norm", f"nn.{kind}({b.typed(size, eps)})")
        b.understood.append(f"{op.replace('_', ' ')} over {math.prod(shape)} values")
    elif op == "group_norm":
        groups, channels = step.attrs.get("groups"), b.shape[1] if len(b.shape) > 1 else 1
        if groups is None:
            groups = next(g for g in (8, 4, 2, 1) if channels % g == 0)
            b.note(f"group norm has {groups} groups")
        if not b.images and len(b.shape) > 2:
            raise Unclear("Group norm needs rows or images, and the value has a sequence.", "Use layer norm there.")
        _divides(step, groups, channels, "")
        name = b.layer("norm", f"nn.GroupNorm({b.typed(groups, channels)})")
        b.understood.append(f"group norm of {channels} channels in {groups} groups")
    else:
        n = b.axes if b.images else 1
        if (op == "instance_norm" and not b.images) or (not b.images and len(b.shape) > 2):
            raise Unclear(
                f"“{step.text}” needs images, and the value before it is {shape_text(b.shape)}.",
                "Name images, for example 56x56 with 64 channels, or write layer norm.",
            )
        kind = "BatchNorm" if op == "batch_norm" else "InstanceNorm"
        name = b.layer("norm", f"nn.{kind}{n}d({b.typed(b.shape[1])})")
        b.understood.append(f"{op.replace('_', ' ')} of {b.shape[1]} {'channels' if b.images else 'features'}")
        if op == "batch_norm":
            b.note("batch norm uses its stored statistics (inference)")
    b.set(f"{name}(x)")
