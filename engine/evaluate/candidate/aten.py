"""Run one operation of a traced graph in PyTorch as the module ran it, for the operations beside regions.

A graph comes from a process that ran pasted text, so its words are not trusted: only the functional operations in
engine.evaluate.candidate.allowed_aten run, by ATen's own schemas, with arguments that fit their types. Needs torch;
only for workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from engine.evaluate.candidate.allowed_aten import ALLOWED
from engine.evaluate.correctness.inputs import torch_dtype
from sol.graph import Op

_MARK = "@"  # marks the position of a tensor in a list with other values (engine.trace.capture)
# By name as tracing writes a given value, by number for the schema's default.
_FORMATS = {
    f"torch.{name}": name for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
_FORMATS |= dict(enumerate(list(_FORMATS.values())))


class UnknownOp(ValueError):
    """No operation of this name runs beside regions, or its arguments fit none of its schemas."""


def operation(op: Op, device: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """The operation as a function of its tensors. Its schema is looked up once. Raises UnknownOp."""
    if op.op not in ALLOWED:
        raise UnknownOp(f"`aten.{op.op}` is not among the operations that run beside a region")
    packet = getattr(torch.ops.aten, op.op, None)
    for name in packet.overloads() if packet is not None else ():
        overload = getattr(packet, name)
        plan = _plan(overload._schema, op, device)
        if plan is not None:
            return _bound(overload, plan)
    raise UnknownOp(f"`aten.{op.op}` was traced with arguments that fit none of its schemas")


def _plan(schema: Any, op: Op, device: str) -> list[tuple[str, bool, Any]] | None:
    """(name, keyword only, source) of each argument: an int is the index of one of the operation's tensors, a `_List`
    the indices of several, a `_Given` a value. None if the schema does not fit."""
    if schema.is_mutable:
        return None
    names = {a.name for a in schema.arguments}
    if not set(op.attrs) <= names:
        return None
    lists = [a for a in schema.arguments if "List[" in str(a.type) and "Tensor" in str(a.type)]
    single = [a for a in schema.arguments if a not in lists and "Tensor" in str(a.type) and a.name not in op.attrs]
    while len(single) > len(op.inputs) and "Optional" in str(single[-1].type) and single[-1].has_default_value():
        single.pop()
    marked = {a.name: sum(v == _MARK for v in op.attrs[a.name]) for a in lists if a.name in op.attrs}
    free = [a for a in lists if a.name not in op.attrs]
    room = len(op.inputs) - len(single) - sum(marked.values())
    if room < 0 or len(free) > 1 or (room and not free) or (free and not room):
        return None
    at, plan, named = 0, [], False  # after an omitted argument, the others go by name
    for a in schema.arguments:
        if a in lists:
            n = marked.get(a.name, room)
            pattern = op.attrs.get(a.name, [_MARK] * n)
            places = iter(range(at, at + n))
            plan.append((a.name, a.kwarg_only or named, _List([next(places) if v == _MARK else None for v in pattern])))
            at += n
        elif a in single:
            plan.append((a.name, a.kwarg_only or named, at))
            at += 1
        elif a.name in op.attrs:
            value = _value(a, op.attrs[a.name], device, bool(op.inputs))
            if value is _WRONG:
                return None
            plan.append((a.name, a.kwarg_only or named, _Given(value)))
        elif a.has_default_value():
            named = True
        else:
            return None
    return plan


class _List(list):
    """Indices of tensors; None stands for itself."""


class _Given:
    def __init__(self, value: Any):
        self.value = value


_WRONG = object()
_KINDS = {"int": (int,), "float": (int, float), "number": (int, float), "bool": (bool,), "str": (str,)}


def _value(argument: Any, value: Any, device: str, has_tensors: bool) -> Any:
    """An attribute in the form that ATen takes; _WRONG if its type does not fit."""
    kind, name = str(argument.type), argument.name
    optional = kind.startswith("Optional[")
    inner = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
    if name == "device":
        return None if value is None and has_tensors else torch.device(device)
    if value is None:
        return None if optional else _WRONG
    if name == "layout":
        return torch.strided
    if name == "dtype":
        return torch_dtype(value) if isinstance(value, str) else _WRONG
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


def _bound(overload: Any, plan: list[tuple[str, bool, Any]]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    ordered = [how for _, keyword, how in plan if not keyword]
    named = [(name, how) for name, keyword, how in plan if keyword]

    def fill(how: Any, x: list[torch.Tensor]) -> Any:
        if isinstance(how, _Given):
            return how.value
        if isinstance(how, _List):
            return [None if i is None else x[i] for i in how]
        return x[how]

    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        results = overload(*(fill(how, x) for how in ordered), **{name: fill(how, x) for name, how in named})
        return list(_tensors(results))

    return call


def _tensors(results: Any) -> Iterator[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        yield results
    elif isinstance(results, (list, tuple)):
        for one in results:
            yield from _tensors(one)
