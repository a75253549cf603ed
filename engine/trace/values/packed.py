"""Packed sequences: the time steps of sequences of several lengths, without padding, as recurrent networks read them.

How many steps there are, and how long the longest sequence is, depends on the lengths. PyTorch's functions ask for
these numbers while a module is traced; here they are sizes that depend on values (engine.trace.values.sizes).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

_MANY = "_number_of_sequences"  # of a tensor of batch sizes


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """In this context packing has shapes, and networks of packed sequences do not ask for their number."""
    import torch
    from torch import _VF, nn

    _shapes()
    pack, pad = _VF._pack_padded_sequence, _VF._pad_packed_sequence
    expected = nn.RNNBase.get_expected_hidden_size

    def packed(input: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
        data, sizes = pack(input, lengths, batch_first)
        setattr(sizes, _MANY, input.shape[0 if batch_first else 1])
        return data, sizes

    def padded(data: Any, sizes: Any, batch_first: bool, value: float, length: Any) -> tuple[Any, Any]:
        return pad(data, sizes, batch_first, value, 0 if isinstance(length, torch.SymInt) else length)  # 0: the longest

    def hidden_size(self: Any, input: Any, sizes: Any) -> tuple[int, int, int]:
        if sizes is None or not hasattr(sizes, _MANY):
            return expected(self, input, sizes)
        return _hidden(self, sizes)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(_VF, "_pack_padded_sequence", packed, create=True))
        stack.enter_context(mock.patch.object(_VF, "_pad_packed_sequence", padded, create=True))
        stack.enter_context(mock.patch.object(nn.RNNBase, "get_expected_hidden_size", hidden_size))
        for network in (nn.LSTM, nn.GRU, nn.RNN):
            stack.enter_context(mock.patch.object(network, "forward", _begun(network.forward)))
        yield


def _hidden(network: Any, sizes: Any) -> tuple[int, int, int]:
    """(layers x directions, sequences, features) of a network's state."""
    return (
        network.num_layers * (2 if network.bidirectional else 1),
        getattr(sizes, _MANY),
        network.proj_size or network.hidden_size,
    )


def _begun(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward of a network that gets its first state of zeros where it would make one for packed sequences."""
    import torch
    from torch.nn.utils.rnn import PackedSequence

    @functools.wraps(forward)
    def call(self: Any, input: Any, hx: Any = None) -> Any:
        if hx is None and isinstance(input, PackedSequence) and hasattr(input.batch_sizes, _MANY):
            shape = _hidden(self, input.batch_sizes)
            hx = input.data.new_zeros(shape)
            if isinstance(self, torch.nn.LSTM):
                hx = hx, input.data.new_zeros((*shape[:2], self.hidden_size))
        return forward(self, input, hx)

    return call


@functools.cache
def _shapes() -> None:
    """Give PyTorch's operations of packed sequences the shapes of their results, which it lacks (2.13 gives wrong
    ones)."""
    import torch
    from torch._subclasses import fake_impls
    from torch._subclasses.fake_tensor import DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import _constrain_range_for_size

    pack, pad = torch.ops.aten._pack_padded_sequence.default, torch.ops.aten._pad_packed_sequence.default

    def packed(mode: Any, func: Any, input: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
        env = mode.shape_env
        if env is None or not env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(func)
        batch, longest = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
        rows, steps = env.create_unbacked_symint(), env.create_unbacked_symint()
        _constrain_range_for_size(rows, max=batch * longest)
        _constrain_range_for_size(steps, max=longest)
        with mode:
            return input.new_empty((rows, *input.shape[2:])), lengths.new_empty((steps,), device="cpu")

    def padded(data: Any, sizes: Any, batch_first: bool, value: float, length: int) -> tuple[Any, Any]:
        many = getattr(sizes, _MANY)
        longest = length if length > 0 else sizes.shape[0]
        shape = (many, longest) if batch_first else (longest, many)
        return data.new_empty((*shape, *data.shape[1:])), sizes.new_empty((many,))

    fake_impls.op_implementations_dict[pack] = packed
    pad.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(padded)


__all__ = ["opened"]
