"""Zeros that are put around a tensor for one convolution, as the convolution's own padding: the "same" padding of
TensorFlow, or `nn.ZeroPad2d` before one without padding. The tensor is then not copied into a larger one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_PADS = ("pad", "constant_pad_nd")
_CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}


def within(ops: list[dict], tensors: Mapping[str, dict], outputs: Collection[str]) -> list[dict]:
    """The operations, with each such padding in its convolution where it is the same on both sides of every axis.
    `tensors`: name -> its entry; `outputs`: the names of what the graph returns."""
    pads = {
        op["outputs"][0]: (op["inputs"][0], around)
        for op in ops
        if op["op"] in _PADS and (around := _around(op["attrs"])) is not None
    }
    left = [_joined(op, pads, tensors) for op in ops]
    read = {name for op in left for name in op["inputs"]} | set(outputs)
    return [op for op in left if op["outputs"][0] not in pads or op["outputs"][0] in read]


def _joined(op: dict, pads: Mapping[str, tuple], tensors: Mapping[str, dict]) -> dict:
    """A convolution with the zeros that are put around its input; any other operation as it is."""
    own = _padding(op)
    if own is None or op["inputs"][0] not in pads:
        return op
    source, around = pads[op["inputs"][0]]
    if len(around) > len(own) or len(tensors[source]["shape"]) != len(own) + 2:
        return op  # zeros as more channels, or an image without a batch
    more = (*[0] * (len(own) - len(around)), *around)
    padding = [a + b for a, b in zip(own, more, strict=True)]
    return {**op, "inputs": [source, *op["inputs"][1:]], "attrs": {**op["attrs"], "padding": padding}}


def _around(attrs: Mapping) -> tuple[int, ...] | None:
    """The zeros on each side of the last axes, in the order of the axes; None if they are not the same on both sides,
    or no zeros."""
    sides = attrs.get("pad") or []
    pairs = list(zip(sides[::2], sides[1::2], strict=False))
    if len(sides) % 2 or attrs.get("mode", "constant") != "constant" or attrs.get("value") not in (None, 0):
        return None
    return tuple(low for low, _ in reversed(pairs)) if all(low == high >= 0 for low, high in pairs) else None


def _padding(op: dict) -> list[int] | None:
    """A convolution's padding, for each of its axes; None for any other operation, or if it is given as a word."""
    axes, own = _CONVOLUTIONS.get(op["op"]), op["attrs"].get("padding")
    if axes is None or not isinstance(own, list) or not all(isinstance(n, int) for n in own):
        return None
    return own * axes if len(own) == 1 else own


__all__ = ["within"]
