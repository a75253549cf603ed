"""flex_attention, which PyTorch compiles from a function of each score, as the operations that it stands for."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """In this context flex_attention is scaled_dot_product_attention under the mask that its mask_mod gives or, where a
    score_mod changes the scores, two products around a softmax. Both functions are called with all indices at once:
    they are of one score each, so they broadcast."""
    package = sys.modules.get("torch.nn.attention.flex_attention")
    if package is None:  # nobody uses it, and it imports torch's compiler
        yield
        return
    ours = {
        "flex_attention_hop": _attention,
        "setup_compilation_env": lambda: contextlib.nullcontext("eager"),
        "create_mask": _mask,
        "_transpose_ordered": lambda blocks, indices: (blocks, indices),  # only a kernel reads its blocks
        "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,  # call it as it is
    }
    with contextlib.ExitStack() as stack:
        for name, value in ours.items():
            if hasattr(package, name):
                stack.enter_context(mock.patch.object(package, name, value))
        yield


def _mask(mod: Callable, b: int | None, h: int | None, rows: int, columns: int, device: Any = None, **how: Any) -> Any:
    """The mask of a mask_mod, (b, h, rows, columns)."""
    shape = (b or 1, h or 1, rows, columns)
    return mod(*_indices(shape, device)).expand(shape)


def _indices(shape: tuple[int, ...], device: Any) -> list[Any]:
    """The index along each axis, in a tensor with that axis."""
    import torch

    each = [torch.arange(n, device=device) for n in shape]
    return [x.view([-1 if axis == own else 1 for axis in range(len(shape))]) for own, x in enumerate(each)]


def _attention(
    query: Any, key: Any, value: Any, score_mod: Callable, block_mask: tuple, scale: float, *others: Any
) -> tuple[Any, Any, Any]:
    """(result, logarithm of the sums, largest score), the last two over log(2) as PyTorch's own operation gives them.
    `query`: (batch, heads, rows, features); keys and values may have fewer heads, and a batch of 1."""
    import torch
    from torch.nn.attention import flex_attention as package

    batch, heads, rows, columns = *query.shape[:3], key.shape[2]
    if key.shape[1] != heads:
        many = heads // key.shape[1]
        key, value = key.repeat_interleave(many, 1), value.repeat_interleave(many, 1)
    key, value = (x if x.shape[0] == batch else x.expand(batch, -1, -1, -1) for x in (key, value))
    at = _indices((batch, heads, rows, columns), query.device)
    masked = block_mask[-1] is not package.noop_mask
    mask = block_mask[-1](*at) if masked else None
    working = query.dtype if query.dtype is torch.float64 else torch.float32
    scores = query.to(working) @ key.to(working).transpose(-2, -1) * scale
    if score_mod is not package._identity:
        scores = score_mod(scores, *at).to(working)
    if masked:
        scores = scores.masked_fill(~mask, -math.inf)
    sums, top = scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)
    if score_mod is package._identity:
        result = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    else:
        weights = torch._safe_softmax(scores, -1) if masked else scores.softmax(-1)
        result = weights.to(query.dtype) @ value
    return result, sums, top


__all__ = ["opened"]
