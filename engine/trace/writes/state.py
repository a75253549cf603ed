"""What a call of forward leaves in the module beside its results, in plain attributes: a hidden state, a mask that is
made once, a counter.

A tensor attribute that each call replaces or changes is the module's state, as a buffer is, so it becomes one before
the module is traced: torch.export takes a plain attribute for a constant. What only the first call makes is there
before the graph is taken. Any other value that each call changes decides what later calls compute, or it does not:
then the graphs of two calls are equal.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.sandbox.channel import PASTED
from engine.trace.explain import quoted
from engine.trace.load import Bad

# What torch.nn.Module itself keeps in an object; `training` is the module's mode.
_OF_TORCH = frozenset(("_parameters", "_buffers", "_modules", "training"))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 4  # lists in lists


@dataclass(frozen=True)
class Changes:
    """Paths of tensor attributes and of buffers that hold another tensor or other values, and of attributes and buffers
    that hold anything else or did before. `resized`: of the first two, those with another shape or type, which both are
    given for."""

    tensors: set[str]
    buffers: set[str]
    others: set[str]
    resized: dict[str, tuple[str, str]]

    @property
    def all(self) -> set[str]:
        return self.tensors | self.buffers | self.others


@dataclass(frozen=True)
class EveryCall:
    """What calls keep in the module: tensor attributes and other attributes that every call changes, those of the
    tensors that are `resized` (as in Changes), and whether the first call changed what later ones leave alone."""

    tensors: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    resized: dict[str, tuple[str, str]] = field(default_factory=dict)
    settled: bool = False


class State:
    """The attributes and buffers of a module and of those inside it, as they are now."""

    def __init__(self, model: Any):
        self.modules = list(model.named_modules())
        self.attributes = {prefix: dict(_own(module)) for prefix, module in self.modules}
        self.buffers = {prefix: dict(module._buffers) for prefix, module in self.modules}
        self.seen = dict(self._looks())

    def changed(self) -> Changes:
        """What is not as it was."""
        now = dict(self._looks())
        paths = {path for path in {*self.seen, *now} if self.seen.get(path) != now.get(path)}
        both = {p: (_kind(self.seen.get(p)), _kind(now.get(p))) for p in paths}
        buffers = {p for p, kinds in both.items() if kinds == ("buffer", "buffer")}
        tensors = {p for p, kinds in both.items() if kinds == ("tensor", "tensor")}
        sizes = {p: (size(self.seen[p][1].value), size(now[p][1].value)) for p in tensors | buffers}
        resized = {p: (was, is_) for p, (was, is_) in sizes.items() if was != is_}
        return Changes(tensors, buffers, paths - tensors - buffers, resized)

    def restore(self) -> None:
        """Put every attribute and buffer back. A tensor that was changed in place keeps its new values."""
        for prefix, module in self.modules:
            for name in [name for name in _own(module) if name not in self.attributes[prefix]]:
                del vars(module)[name]
            vars(module).update(self.attributes[prefix])
            module._buffers.clear()
            module._buffers.update(self.buffers[prefix])
            for name, value in self.attributes[prefix].items():
                _refill(value, self.seen.get(_path(prefix, name)))

    def _looks(self) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.modules:
            for name, value in _own(module).items():
                yield _path(prefix, name), _look(value)
            for name, value in module._buffers.items():
                yield _path(prefix, name), ("None",) if value is None else ("buffer", *_look(value)[1:])


def every_call(model: Any, start: State, call: Callable[[], Any]) -> EveryCall:
    """What calls keep in a module that has had one call since `start`. The module is then as before its first call or,
    if it is `settled`, as after it. `call`: calls it once more, with other tensors. Raises Bad for a buffer that gets
    another shape or type and that every call writes; one that the first call makes for its inputs is a cache."""
    first = start.changed()
    if not first.all:
        return EveryCall()
    second = State(model)
    call()
    again = second.changed()
    resized = again.resized | first.resized
    if lasting := sorted(again.buffers & set(resized)):
        raise refuse_resized(lasting[0], *resized[lasting[0]])
    became = first.others - again.others  # None before the first call, and a tensor since
    settled = bool(became) or not first.all <= again.all
    (second if settled else start).restore()
    resized = first.resized | again.resized
    return EveryCall(again.tensors - became, again.others | (became & again.tensors), resized, settled)


def promote(model: Any, paths: Iterable[str]) -> None:
    """Make buffers of tensor attributes."""
    for path in sorted(paths):
        prefix, _, name = path.rpartition(".")
        module = model.get_submodule(prefix)
        module.register_buffer(name, vars(module).pop(name))


def reads(model: Any, constants: Iterable[str], changed: Iterable[str]) -> bool:
    """Return True if one of the graph's constants is in one of these attributes. torch.export names a tensor of a list
    anew, so with a list among them any tensor that is no attribute may be in it."""
    paths, own = set(changed), {p for prefix, m in model.named_modules() for p in (_path(prefix, n) for n in vars(m))}
    listed = any(isinstance(_get(model, path), (list, tuple, dict)) for path in paths)
    return any(path in paths or (listed and path not in own) for path in constants)


def _get(model: Any, path: str) -> Any:
    prefix, _, name = path.rpartition(".")
    return vars(model.get_submodule(prefix)).get(name)


def refuse(paths: Iterable[str]) -> Bad:
    """The refusal of a module whose later calls compute something else, because of these attributes."""
    path = min(paths, key=lambda p: (line_of(p) is None, line_of(p) or 0, p))
    line = line_of(path)
    at = quoted(line) if line else "forward"
    return Bad("writes", f"{at} changes the module's attribute {path}, so each call computes something else, and no "
               "program can be compared with it. Keep such a state in a tensor of a fixed shape that is there before "
               f"the first call: self.register_buffer({path.rpartition('.')[2]!r}, torch.zeros(...)) in __init__.",
               line)  # fmt: skip


def refuse_resized(path: str, before: str, after: str) -> Bad:
    """The refusal of a state that gets another shape or type. `before`, `after`: as in `Changes.resized`."""
    line = line_of(path)
    at = quoted(line) if line else "forward"
    return Bad("writes", f"{at} replaces the module's {path}, {before}, by a tensor of {after}, so the next call "
               f"computes something else than this one. Start with a tensor of {after} in __init__.", line)  # fmt: skip


def line_of(path: str) -> int | None:
    """The last line of the pasted text that assigns the attribute or changes it in place, but for its first line, which
    is that of __init__."""
    name = re.escape(path.rpartition(".")[2])
    pattern = re.compile(rf"\bself\.{name}\s*(\[[^\]]*\]\s*)?(=(?!=)|[-+*/@&|^]=|\.(append|extend|insert|pop|\w+_)\()")
    lines = [i for i, text in enumerate(linecache.getlines(PASTED), 1) if pattern.search(text)]
    return lines[-1] if lines else None


def size(tensor: Any) -> str:
    """Type and shape in words: "float32 [8, 8]"."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _own(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OF_TORCH}


def _path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}".lstrip(".")


def _look(value: Any, deep: int = 0) -> Any:
    """What of a value is compared: a tensor by its identity and the number of its writes, plain values and containers
    by what they hold, any other object by its identity."""
    import torch

    if isinstance(value, torch.Tensor):
        return ("tensor", _Same(value), value._version)
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if deep < _DEEPEST and isinstance(value, dict):
        return ("dict", tuple((repr(k), _look(v, deep + 1)) for k, v in value.items()), _Items(value))
    if deep < _DEEPEST and isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(_look(v, deep + 1) for v in value), _Items(value))
    return (type(value).__name__, _Same(value))


class _Same:
    """Equal to another one if both are of one object. It keeps the object, whose identity is then its own."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None


class _Items:
    """The content of a list or dict, kept to put it back; it takes no part in a comparison."""

    def __init__(self, value: Any):
        self.items = dict(value) if isinstance(value, dict) else list(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Items)

    __hash__ = None


def _kind(look: Any) -> str:
    return look[0] if look is not None else ""


def _refill(value: Any, look: Any) -> None:
    """Put back what a list or dict held."""
    if type(value) is list:
        value[:] = look[2].items
    elif type(value) is dict:
        value.clear()
        value.update(look[2].items)


__all__ = ["State", "line_of", "promote", "refuse", "size"]
