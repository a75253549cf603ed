"""Random numbers and clocks in forward.

A module that draws some numbers, or computes with the time of day, cannot be the reference of a program, because its
results differ from call to call. The tracer refuses it, with the line and a way out.
"""

from __future__ import annotations

import contextlib
import datetime
import linecache
import random as of_python
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from engine.sandbox.channel import PASTED
from engine.trace.explain import quoted
from engine.trace.load import MODULE, Bad

_DROPOUT = "dropout"
_SEED = re.compile(r"\bmanual_seed\s*\(")
_DRAW_BEFORE = "Draw them in get_inputs() and pass them to forward as another input."
_DRAW_ONCE = (
    "With the same seed they are the same in every call: draw them once in __init__, and register them as a buffer."
)
_SHARES = ("p", "dropout", "dropout_p")  # ATen's names for the share of elements that dropout drops


def random(target: Any, attrs: dict[str, Any]) -> bool:
    """Return True if an ATen operation with these arguments draws from PyTorch's generator: it has the tag, and no
    argument (training mode, the share to drop) switches it off."""
    if "nondeterministic_seeded" not in {str(t).removeprefix("Tag.") for t in getattr(target, "tags", ())}:
        return False
    modes = (attrs.get("train"), attrs.get("training"))
    return False not in modes and not any(attrs.get(name) == 0 for name in _SHARES)


# Sources of values that no state of a generator shows: clocks, random bytes, and generators of a module's own.
_OTHER_SOURCES = re.compile(
    r"^\s*(?:import|from)\s[^#\n]*\b(?:time|datetime|uuid|secrets)\b|\burandom\b|\bSystemRandom\b"
    r"|\bRandom\s*\(|\bdefault_rng\b|\bRandomState\b",
    re.MULTILINE,
)
_LATER = datetime.timedelta(days=397, hours=5, minutes=7, seconds=11)  # another year, month, day, weekday, hour, ...


def may_change(source: str) -> bool:
    """Return True if a text names a source of values that may be others at each call. Most only log a time."""
    return _OTHER_SOURCES.search(source) is not None


def refuse_change(first: tuple[dict, dict[str, Any]], again: Callable[[], tuple[dict, dict[str, Any]]]) -> None:
    """Raise Bad("random") if a second trace, more than a year later by the clocks that the text reads, finds other
    operations or constants. `first`, and what `again` returns: (graph, constants)."""
    with _later():
        graph, constants = again()
    changed = {name for name, value in constants.items() if not _equal(value, first[1].get(name))}
    ops, others = first[0]["ops"], graph["ops"]
    op = next((a for a, b in zip(ops, others, strict=False) if a != b or changed.intersection(a["inputs"])), None)
    if op is None and len(ops) != len(others):
        op = max(ops, others, key=len)[min(len(ops), len(others))]
    if op is not None:
        what = "computes with the time, or with a number drawn outside of PyTorch"
        raise _refusal(op["line"], what, "Give it to forward as another input.")


def _equal(a: Any, b: Any) -> bool:
    import torch

    fake = torch._subclasses.fake_tensor.FakeTensor
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or isinstance(a, fake) or isinstance(b, fake):
        return True  # a graph with another constant has another operation, too
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


@contextlib.contextmanager
def _later() -> Iterator[None]:
    """Let the clocks that a text reads be ahead: time.time() and datetime, by whatever names it has for them."""
    seconds, now = _LATER.total_seconds(), time.time

    class Ahead(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return datetime.datetime.now(tz) + _LATER

        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return cls.now(datetime.UTC).replace(tzinfo=None)

        today = now

    class Day(datetime.date):
        @classmethod
        def today(cls) -> datetime.date:
            return datetime.date.today() + _LATER

    def ahead() -> float:
        return now() + seconds

    package = type(datetime)("datetime")
    vars(package).update(vars(datetime), datetime=Ahead, date=Day)
    clocks = ((datetime, package), (datetime.datetime, Ahead), (datetime.date, Day), (now, ahead))
    names = vars(sys.modules[MODULE])
    before = {name: value for name, value in names.items() if any(value is clock for clock, _ in clocks)}
    names.update({name: next(other for clock, other in clocks if clock is value) for name, value in before.items()})
    time.time = ahead
    try:
        yield
    finally:
        time.time = now
        names.update(before)


@contextlib.contextmanager
def outside_of_torch(source: str, first: int) -> Iterator[None]:
    """Refuse a forward that draws from the generators of Python or numpy, whose numbers a graph would hold for good, or
    that computes in threads of its own, which no tracer follows. `first`: the line of `def forward`. Raises Bad."""
    before, threads, start = _generators(), list[threading.Thread](), threading.Thread.start

    def noted(self: threading.Thread) -> None:
        threads.append(self)
        start(self)

    threading.Thread.start = noted
    try:
        yield
    finally:
        threading.Thread.start = start
    after = _generators()
    drew = next((name for name, state in before.items() if state != after[name]), None)
    if drew:
        line = _line_of(source, r"\brandom\s*\.|\b(rand\w*|choice|shuffle|uniform|normal|sample)\s*\(", first)
        raise _refusal(line, f"draws random numbers ({drew})", _DRAW_BEFORE)
    if threads:
        line = _line_of(source, r"\bThread\w*\s*\(|\.submit\s*\(|\.map\s*\(", first)
        at = quoted(line) if line else "The module"
        reason = f"{at} computes in threads that forward starts, and nothing can follow them: make the calls one after"
        raise Bad("leaves_torch", f"{reason} the other.", line)


def _generators() -> dict[str, Any]:
    """The states of the generators that every module shares, by the name of their package."""
    numpy = sys.modules.get("numpy.random")
    return {"random": of_python.getstate()} | ({"numpy.random": str(numpy.get_state())} if numpy else {})


def _line_of(source: str, pattern: str, first: int) -> int | None:
    """The first line from `first` on that matches, or else the first one at all."""
    matches = [n for n, text in enumerate(source.splitlines(), 1) if re.search(pattern, text) and "import" not in text]
    return next((n for n in matches if n >= first), next(iter(matches), None))


def refuse_chance(ops: list[dict], drawn: set[str]) -> None:
    """Raise Bad("random") for the first operation of `ops` (those that results depend on) whose name is in `drawn`."""
    op = next((op for op in ops if op["name"] in drawn), None)
    if op is None:
        return
    line, name = op["line"], op["op"].removesuffix("_functional").strip("_")
    share = next((op["attrs"][s] for s in _SHARES if s in op["attrs"]), None)
    if _DROPOUT in name or _DROPOUT in op["attrs"] or "dropout_p" in op["attrs"]:
        what = f"drops elements at random ({name})"
        way = "A module is optimised in eval mode, where nn.Dropout does nothing: "
        if "dropout_p" in op["attrs"]:
            way += f"pass dropout_p={share} if self.training else 0.0, or leave it out."
        else:
            way += "pass training=self.training, or leave the dropout out."
    else:
        what = f"draws random numbers ({name})"
        way = _DRAW_BEFORE
        if line and any(_SEED.search(linecache.getline(PASTED, n)) for n in range(_function_of(line), line)):
            raise _once(line, f"{what} after manual_seed")
    raise _refusal(line, what, way)


def refuse_generator(op: str, line: int | None) -> Bad:
    """The refusal of a draw from a torch.Generator, which a program cannot repeat on another device."""
    return _once(line, f"draws random numbers ({op}) from a torch.Generator")


def _function_of(line: int) -> int:
    """The line of the last `def` at or before a line."""
    return next((n for n in range(line, 0, -1) if linecache.getline(PASTED, n).lstrip().startswith("def ")), line)


def _once(line: int | None, what: str) -> Bad:
    at = quoted(line) if line else "The module"
    return Bad("random", f"{at} {what}, and a program cannot repeat the generator. {_DRAW_ONCE}", line)


def _refusal(line: int | None, what: str, way: str) -> Bad:
    at = quoted(line) if line else "The module"
    return Bad("random", f"{at} {what}: each call gives another result, so no program can be compared with it. {way}",
               line)  # fmt: skip
