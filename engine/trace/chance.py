"""Random numbers in forward.

A module that draws some cannot be the reference of a program, because its results differ from call to call. The tracer
refuses it, with the line and a way out.
"""

from __future__ import annotations

import contextlib
import random as of_python
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

from engine.trace.explain import quoted
from engine.trace.load import Bad

_DROPOUT = "dropout"
_DRAW_BEFORE = "Draw them in get_inputs() and pass them to forward as another input."
_SHARES = ("p", "dropout", "dropout_p")  # ATen's names for the share of elements that dropout drops


def random(target: Any, attrs: dict[str, Any]) -> bool:
    """Return True if an ATen operation with these arguments draws from PyTorch's generator: it has the tag, and no
    argument (training mode, the share to drop) switches it off."""
    if "nondeterministic_seeded" not in {str(t).removeprefix("Tag.") for t in getattr(target, "tags", ())}:
        return False
    modes = (attrs.get("train"), attrs.get("training"))
    return False not in modes and not any(attrs.get(name) == 0 for name in _SHARES)


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
    raise _refusal(line, what, way)


def _refusal(line: int | None, what: str, way: str) -> Bad:
    at = quoted(line) if line else "The module"
    return Bad("random", f"{at} {what}: each call gives another result, so no program can be compared with it. {way}",
               line)  # fmt: skip
