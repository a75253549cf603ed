"""The shape of the input: what the description says, and sensible defaults for the rest."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from playground.words.request import POOLS, Request, Step
from playground.words.tokens import Unclear

IMAGES = POOLS | {"conv", "separable", "instance_norm"}
WIDE = frozenset(("linear", "mlp", "gated", "attention", "transformer", "layer_norm", "rms_norm"))
MOST_ELEMENTS = 1 << 32  # of one tensor: 16 GiB in float32
SPATIAL = {1: (4096,), 2: (56, 56), 3: (16, 56, 56)}
BATCH, ROWS, SEQUENCE, CHANNELS, FEATURES, HEADS = 16, 2048, 1024, 64, 1024, 16

Note = Callable[[str], None]


def shape_text(shape: tuple[int, ...]) -> str:
    """(2048, 1024) as people read it: 2048x1024; a scalar as one number."""
    return "x".join(map(str, shape)) if shape else "one number"


def checked(shape: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """The shape, if every size is a positive whole number and the tensor has room. Raises Unclear."""
    for size in shape:
        if not isinstance(size, int) or size < 1:
            raise Unclear(f"{what}: the size {size} is no positive whole number.", "Write sizes such as 1024x4096.")
    if prod(shape) > MOST_ELEMENTS:
        raise Unclear(
            f"{what} {shape_text(shape)} has {prod(shape):,} elements; the limit is {MOST_ELEMENTS:,}.",
            "Choose smaller sizes.",
        )
    return shape


def spatial_axes(step: Step, facts: dict[str, Any]) -> int:
    """1, 2 or 3: the axes of the images of a convolution or a pool that comes first."""
    for value in (step.attrs.get("nd"),):
        if value:
            return value
    for value in (step.attrs.get("kernel"), facts.get("image")):
        if isinstance(value, tuple) and len(value) in (2, 3):
            return len(value)
    shape = facts.get("shape", ())
    if len(shape) in (3, 4, 5):
        return {3: 1 if "seq" in facts else 2, 4: 2, 5: 3}[len(shape)]
    return 1 if "seq" in facts else 2


def input_shape(request: Request, note: Note) -> tuple[int, ...]:
    """The shape of the module's input, unless it begins with a matrix product. `note`: takes what is assumed."""
    facts = request.facts
    decisive = next((s for s in request.steps if s.op in IMAGES | WIDE), None)
    norms = any(s.op in ("batch_norm", "group_norm") for s in request.steps)
    if (decisive is not None and decisive.op in IMAGES) or "image" in facts or (
        "channels" in facts and (decisive is None or norms)
    ):  # fmt: skip
        return _image(decisive if decisive is not None and decisive.op in IMAGES else Step("", {}), facts, note)
    return _rows(request, decisive, note)


def _image(step: Step, facts: dict[str, Any], note: Note) -> tuple[int, ...]:
    n = spatial_axes(step, facts)
    chain = step.attrs.get("chain", (None,))
    channels = step.attrs.get("in") or chain[0] or facts.get("channels")
    shape = facts.get("shape")
    if shape is not None and len(shape) == n + 2:
        _agree("channels", channels, shape[1])
        _agree("batch size", facts.get("batch"), shape[0])
        return checked(tuple(shape), "The input")
    spatial = facts.get("image") or (shape if shape and len(shape) == n else None)
    if shape is not None and len(shape) == n + 1:
        _agree("channels", channels, shape[0])
        channels, spatial = shape[0], shape[1:]
    elif shape is not None and spatial is None:
        what = f"{n}-D images have {n} sizes, or {n + 2} with batch and channels"
        raise Unclear(f"The size {shape_text(shape)} does not fit: {what}.", "Write for example 16x64x56x56.")
    if spatial is None and n == 1 and "seq" in facts:
        spatial = (facts["seq"],)
    if spatial is not None and len(spatial) == 1 and n > 1:
        spatial = spatial * n
    if spatial is None:
        spatial = SPATIAL[n]
        note(f"{'a length' if n == 1 else 'images'} of {shape_text(spatial)}")
    if len(spatial) != n:
        raise Unclear(
            f"The image size {shape_text(spatial)} has {len(spatial)} sizes; this needs {n}.",
            f"Write for example {shape_text(SPATIAL[n])}, or name the operation {len(spatial)}d.",
        )
    if channels is None:
        channels = CHANNELS
        note(f"{CHANNELS} input channels")
    batch = facts.get("batch")
    if batch is None:
        batch = BATCH
        note(f"a batch of {BATCH}")
    return checked((batch, channels, *spatial), "The input")


def _agree(what: str, stated: int | None, size: int) -> None:
    if stated is not None and stated != size:
        raise Unclear(f"The input has {size} as its {what}, and {stated} elsewhere.", f"Keep one number of {what}.")


def _width(request: Request) -> int | None:
    """The last axis of the input as the first operations need it; None if nothing says it."""
    facts = request.facts
    for step in request.steps:
        attrs = step.attrs
        if step.op in ("linear", "mlp", "gated"):
            own = attrs.get("in") or (attrs.get("chain") or (None,))[0]
            if own is None and step.op != "linear" and "intermediate" in attrs:
                own = attrs.get("hidden")
            return own or facts.get("features")
        if step.op in ("attention", "transformer"):
            if "heads" in attrs and "head_dim" in attrs:
                return attrs["heads"] * attrs["head_dim"]
            return facts.get("features") or attrs.get("hidden")
    return facts.get("features") or facts.get("cols")


def _rows(request: Request, decisive: Step | None, note: Note) -> tuple[int, ...]:
    facts = request.facts
    width, shape = _width(request), facts.get("shape")
    if shape is not None:
        if width is not None and shape[-1] != width:
            raise Unclear(
                f"The input is {shape_text(shape)}, so it has {shape[-1]} features; the first layer takes {width}.",
                f"Write an input that ends in {width}, or a layer from {shape[-1]}.",
            )
        if "batch" in facts and facts["batch"] != shape[0]:
            shape = (facts["batch"], *shape)
        return checked(tuple(shape), "The input")
    attention = decisive is not None and decisive.op in ("attention", "transformer")
    if width is None:
        width = FEATURES if decisive is not None else 4096
        note(f"{width} features")
    batch, seq = facts.get("batch"), facts.get("seq")
    if "rows" in facts:
        batch = facts["rows"] if batch is None else batch
    if attention:
        if batch is None:
            batch = 8
            note("a batch of 8")
        if seq is None:
            seq = SEQUENCE
            note(f"sequences of {SEQUENCE} tokens")
    if batch is None and seq is None:
        batch = ROWS if decisive is not None else 4096
        note(f"{'a batch of ' if decisive is not None else ''}{batch}{'' if decisive is not None else ' rows'}")
    return checked((*(size for size in (batch, seq) if size is not None), width), "The input")
