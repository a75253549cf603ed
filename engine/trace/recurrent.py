"""Recurrent networks on fake tensors: the shapes of their results, without the loop over time steps.

PyTorch has no fake kernel for nn.LSTM, nn.GRU and nn.RNN. It runs a Python decomposition, step by step: six layers of
512 steps take 6 s in forward and 50 s in torch.export, which keeps the network as one operation anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


def _result(x: Any, hidden: Any, bidirectional: bool) -> tuple[Any, Any]:
    """The output sequence and the last hidden state, empty. `hidden`: (layers x directions, batch, features)."""
    features = hidden.shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:-1], features)), hidden.new_empty(hidden.shape)


def _plain(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _result(x, hx, bidirectional)


def _lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    hidden, cell = hx
    # A projection makes the hidden state narrower than the cell; the output has the width of the hidden state.
    sequence, last = _result(x, hidden, bidirectional)
    return sequence, last, cell.new_empty(cell.shape)


def _plain_packed(x, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    return _result(x, hx, bidirectional)


def _lstm_packed(x, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    return _lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, False)


def _dispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The network's function, which asks Python's kernels also where the module is only called: PyTorch's own kernel in
    C++ runs its steps one by one (a GRU of six layers and 512 steps takes 12 s)."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._pytree import tree_leaves

    def call(*args: Any) -> Any:
        fake = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves(args))
        with enable_python_dispatcher() if fake else contextlib.nullcontext():
            return function(*args)

    return call


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """In this context recurrent networks give empty results of the right shapes. Only for fake tensors and for
    torch.export before decompositions, which records the network as one operation."""
    import torch
    from torch._C import DispatchKey

    aten = torch.ops.aten
    plain = (aten.gru, aten.rnn_tanh, aten.rnn_relu)
    ours = {aten.lstm.input: _lstm, aten.lstm.data: _lstm_packed}
    ours |= {network.input: _plain for network in plain} | {network.data: _plain_packed for network in plain}
    originals = []
    for overload, function in ours.items():
        for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
            if key in overload.py_kernels:
                originals.append((overload, key, overload.py_kernels[key]))
                overload.py_kernels[key] = function
        overload._dispatch_cache.clear()
    names = ("gru", "lstm", "rnn_tanh", "rnn_relu")  # as torch.nn calls them
    functions = {name: getattr(torch._VF, name) for name in names}
    for name, function in functions.items():
        setattr(torch._VF, name, _dispatched(function))
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(torch._VF, name, function)
        for overload, key, function in originals:
            overload.py_kernels[key] = function
            overload._dispatch_cache.clear()


__all__ = ["shapes_only"]
