"""The speed-of-light report as an agent reads it: the classes of its session, and a key to the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sol.render import markdown

KEY = """How to read it:
- limit (fused): the least time at the data sheet's peak rates if everything were one kernel. gap = time / this limit;
  the gap of a trial and any stop rule use it. A program under `guard f32` whose products run in f16 is of class tf32,
  and the limit of f16 counts for it.
- at measured rates: the same with rates measured on such a GPU, a more realistic aim. unfused: each operation as its
  own kernel, at the peak rates. They are for orientation and no gap uses them.
- score: 0.5 is as fast as PyTorch, 1 is at the limit.
- The module runs in eval() mode: batch norm uses its running statistics, dropout does nothing.
- PyTorch in f16 or bf16 is torch.autocast, which casts inputs and weights in every call; its casts are timed. A program
  gets the module's own tensors (f32 here if the module is f32), and its casts are timed too, unless it says `prepack`:
  that work is done once for each version of the weights and is not timed.
- The session does not end near the limit by itself: call stop."""


def of_classes(report: dict[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    """A report without the classes that a session does not allow, and without levers to them. Operations stay priced
    in the report's main class."""
    classes = [cls for cls in report["classes"] if cls in allowed]
    if not classes:
        return report
    levers = [x for x in report["levers"] if possible(x, allowed)]
    return {**report, "main": report.get("main") or report["classes"][0], "classes": classes, "levers": levers}


def possible(lever: dict[str, Any], allowed: Sequence[str]) -> bool:
    """Return False for a lever to a class that is not allowed. Older reports name it in the title alone."""
    if lever.get("action") != "lower_class":
        return True
    return (lever.get("target") or lever["title"].removeprefix("Use the ").removesuffix(" class")) in allowed


def text(report: dict[str, Any], allowed: Sequence[str]) -> str:
    """The report in Markdown with its key. `allowed`: the classes of the session."""
    return f"{markdown(of_classes(report, allowed))}\n{KEY}\n"
