"""Find the ATen overload for an operation of a traced graph, by ATen's own schemas and the types of its arguments.

Needs torch and nothing else of ours: exported packages contain this file unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

MARK = "@"  # marks the position of a tensor in a list with other values (engine.trace.capture)
# By name as tracing writes a given value, by number for the schema's default.
_FORMATS = {
    f"torch.{name}": name for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
_FORMATS |= dict(enumerate(list(_FORMATS.values())))


class Several(list):
    """The places of the tensors of a list; None stands for itself."""


class OnHost(int):
    """The place of a tensor that PyTorch reads on the CPU, whatever the others are on."""

    on_host = True


# Arguments of operations of packed sequences: how many steps there are decides what is launched.
_ON_HOST = {("_pack_padded_sequence", "lengths"), ("_pad_packed_sequence", "batch_sizes")}
_ON_HOST |= {(network, "batch_sizes") for network in ("lstm", "gru", "rnn_tanh", "rnn_relu")}


class Given:
    """A value that is no tensor."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return f"Given({self.value!r})"


class Call:
    """An overload with its arguments. Each is the place of one of the operation's tensors, a `Several` or a `Given`.
    `ordered`: the positional ones; `named`: (name, argument)."""

    def __init__(self, overload: Any, plan: list[tuple[str, bool, Any]]):
        self.overload = overload
        self.ordered = [how for _, keyword, how in plan if not keyword]
        self.named = [(name, how) for name, keyword, how in plan if keyword]
        # A call is timed with all that it costs the host, so what never changes is filled in once.
        self._values = [how.value if isinstance(how, Given) else None for how in self.ordered]
        self._places = [(i, how) for i, how in enumerate(self.ordered) if not isinstance(how, Given)]
        self._known = {name: how.value for name, how in self.named if isinstance(how, Given)}
        self._later = [(name, how) for name, how in self.named if not isinstance(how, Given)]

    def meaning(self) -> tuple:
        """The same for every call that computes the same of its tensors."""
        return str(self.overload), repr(self.ordered), repr(self.named)

    def __call__(self, x: list[torch.Tensor]) -> list[torch.Tensor]:
        values, named = self._values.copy(), self._known
        for i, how in self._places:
            values[i] = x[how] if type(how) is int else _fill(how, x)
        if self._later:
            named = named | {name: _fill(how, x) for name, how in self._later}
        results = self.overload(*values, **named)
        return [results] if isinstance(results, torch.Tensor) else list(tensors(results))


def find(name: str, many: int, attrs: dict[str, Any], device: Any, dtype_of: Callable[[str], Any]) -> Call | None:
    """The call of `aten.name` on `many` tensors; None if the arguments fit none of its schemas. `device`: the value of
    an argument that names a device; `dtype_of`: the torch dtype of an element type of the graph."""
    packet = getattr(torch.ops.aten, name, None)
    for one in packet.overloads() if packet is not None else ():
        overload = getattr(packet, one)
        plan = _plan(overload._schema, many, attrs, device, dtype_of)
        if plan is not None:
            return Call(overload, plan)
    return None


def _plan(
    schema: Any, many: int, attrs: dict[str, Any], device: Any, dtype_of: Callable[[str], Any]
) -> list[tuple[str, bool, Any]] | None:
    """(name, keyword only, source) of each argument: an int is the index of one of the operation's tensors, a `Several`
    the indices of several, a `Given` a value. None if the schema does not fit."""
    if schema.is_mutable:
        return None
    names = {a.name for a in schema.arguments}
    if not set(attrs) <= names:
        return None
    lists = [a for a in schema.arguments if "List[" in str(a.type) and "Tensor" in str(a.type)]
    single = [a for a in schema.arguments if a not in lists and "Tensor" in str(a.type) and a.name not in attrs]
    while len(single) > many and "Optional" in str(single[-1].type) and single[-1].has_default_value():
        single.pop()
    marked = {a.name: sum(v == MARK for v in attrs[a.name]) for a in lists if a.name in attrs}
    free = [a for a in lists if a.name not in attrs]
    room = many - len(single) - sum(marked.values())
    if room < 0 or len(free) > 1 or (room and not free) or (free and not room):
        return None
    at, plan, named = 0, [], False  # after an omitted argument, the others go by name
    for a in schema.arguments:
        if a in lists:
            n = marked.get(a.name, room)
            pattern = attrs.get(a.name, [MARK] * n)
            places = iter(range(at, at + n))
            plan.append(
                (a.name, a.kwarg_only or named, Several([next(places) if v == MARK else None for v in pattern]))
            )
            at += n
        elif a in single:
            place = OnHost(at) if (schema.name.split("::")[-1], a.name) in _ON_HOST else at
            plan.append((a.name, a.kwarg_only or named, place))
            at += 1
        elif a.name in attrs:
            value = _value(a, attrs[a.name], device, many > 0, dtype_of)
            if value is _WRONG:
                return None
            plan.append((a.name, a.kwarg_only or named, Given(value)))
        elif a.has_default_value():
            named = True
        else:
            return None
    return plan


_WRONG = object()
_KINDS = {"int": (int,), "float": (int, float), "number": (int, float), "bool": (bool,), "str": (str,)}


def _value(argument: Any, value: Any, device: Any, has_tensors: bool, dtype_of: Callable[[str], Any]) -> Any:
    """An attribute in the form that ATen takes; _WRONG if its type does not fit."""
    kind, name = str(argument.type), argument.name
    optional = kind.startswith("Optional[")
    inner = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
    if name == "device":
        return None if value is None and has_tensors else device
    if value is None:
        return None if optional else _WRONG
    if name == "layout":
        return torch.strided
    if name == "dtype":
        return dtype_of(value) if isinstance(value, str) else _WRONG
    if name == "memory_format":
        return getattr(torch, _FORMATS[value]) if value in _FORMATS else _WRONG
    if inner.startswith("List["):
        of = inner.removeprefix("List[").removesuffix("]").removeprefix("Optional[").removesuffix("]")
        if not isinstance(value, list) or any(_scalar(of, v) is _WRONG for v in value):
            return _WRONG
        return [_scalar(of, v) for v in value]
    return _scalar(inner, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind in ("float", "number") and isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) and kind in ("int", "float"):
        return _WRONG
    return value if isinstance(value, _KINDS.get(kind, ())) else _WRONG


def _fill(how: Any, x: list[torch.Tensor]) -> Any:
    if isinstance(how, Several):
        return [None if i is None else x[i] for i in how]
    return x[how].cpu() if isinstance(how, OnHost) else x[how]


def tensors(results: Any) -> Iterator[torch.Tensor]:
    """The tensors of an operation's result, which may be a list or nested."""
    if isinstance(results, torch.Tensor):
        yield results
    elif isinstance(results, (list, tuple)):
        for one in results:
            yield from tensors(one)
