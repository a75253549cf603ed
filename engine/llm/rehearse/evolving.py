"""The roles of `cutegen` by rule: a failed candidate is mended, a kernel evolves, and a profile is put into words.

Candidates come from the same draw as those of every other strategy (engine.llm.rehearse.player); a fix takes out the
mistake that the rehearsal put in, and where it finds none, draws another candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.llm.rehearse import mistakes, raw_kernels
from engine.llm.rehearse.pool import pool

INJECTED = ("syntax", "type", "result")  # mistakes of a program that its text shows
MOST_KERNELS = 4  # draws until a program becomes a kernel
MOST_FACTS = 6
_ROLE = re.compile(r'You work in the role "(\w{1,40})"')
_MEND = re.compile(
    r"^# The candidate to mend\nTrial (\d{1,6}) [^\n]*\n<<<candidate ([0-9a-f]{16})\n(.*?)\n\2 end>>>$",
    re.MULTILINE | re.DOTALL,
)
_PROFILE = re.compile(r"^<<<profile ([0-9a-f]{16})\n(.*?)\n\1 end>>>$", re.MULTILINE | re.DOTALL)
_BOUND = re.compile(
    r'"name": "([^"\n]{1,80})".{0,200}?"ms": ([0-9.e+-]{1,20}).{0,80}?"bound_by": "(\w{1,20})"', re.DOTALL
)
_MEASURED = re.compile(  # Nsight Compute's figures in words (engine.llm.prompts)
    r"^(\S{1,300}): ([0-9.]{1,12}) ms, \d{1,3}% of it;[^\n]{0,200}\n"
    r"- Speed of light: compute ([0-9.]{1,6})%, memory ([0-9.]{1,6})%",
    re.MULTILINE,
)
NAME = 48  # characters of a kernel's name
_EVOLVING = "\n# The evolving kernel\n"
_MENDING = "\n# The candidate to mend\n"

Program = dict[str, Any]  # a reply of the form Program


def value(prompt: str, work: Any, mistake: str, draw: Callable[[], Program]) -> dict[str, Any] | None:
    """The reply to a prompt of `cutegen`; None for another prompt. `work`: what the prompt asks for
    (engine.llm.rehearse.player.Work); `draw()`: a candidate of the pool, drawn as for every strategy."""
    role = _ROLE.search(prompt)
    if role is None or (_EVOLVING not in prompt and _MENDING not in prompt):
        return None
    if role[1] == "derive":
        return _derived(prompt)
    failed = _MEND.findall(prompt) if role[1] == "fix" else []
    number, _, text = failed[-1] if failed else ("", "", "")
    if work.form == "Kernel":
        cls = re.search(rf"^{number}\. [^\n]{{1,400}} \[(\w+)\]: ", prompt, re.MULTILINE) if number else None
        return _kernel(work, mistake, text, cls[1] if cls else work.classes[0], draw)
    return _mended(work, mistake, text, draw) if role[1] == "fix" and work.form == "Program" else None


# ---- programs ----


def _mended(work: Any, mistake: str, failed: str, draw: Callable[[], Program]) -> Program:
    drawn = pool(work.source, work.kind, work.classes, work.gpu)
    origin = next((d for d in drawn for m in INJECTED if _same(mistakes.spoiled(d, m, d).text, failed)), None)
    if origin is None or any(_same(d.text, failed) for d in drawn):
        return draw()
    slowest = max(drawn, key=lambda d: d.ms or 0.0)
    chosen = mistakes.spoiled(replace(origin, change=f"{origin.change}, mended"), mistake, slowest)
    return {
        "program": chosen.text, "cls": chosen.cls, "change": chosen.change or "the planner's candidate",
        "why": "Rehearsed: the mistake that was put in is taken out.", "predicted_ms": chosen.ms,
    }  # fmt: skip


def _same(one: str, other: str) -> bool:
    return one.strip() == other.strip()


# ---- kernels ----


def _kernel(work: Any, mistake: str, failed: str, cls: str, draw: Callable[[], Program]) -> dict[str, Any]:
    """A kernel. `failed`: the text to mend, of class `cls`; "" if there is none."""
    if mistake == "cheat":
        return raw_kernels.raw_kernel(work.source, work.kind, work.classes, mistake, work.gpu)
    mended = raw_kernels.mended(failed)
    if failed and not _same(mended, failed):
        reply = {"source": mended, "cls": cls, "change": "the mistake is mended", "why": "Rehearsed."}
    else:
        reply = _drawn(work, draw)
    if reply is None:
        return raw_kernels.raw_kernel(work.source, work.kind, work.classes, mistake, work.gpu)
    return reply | {"source": raw_kernels.spoiled(reply["source"], mistake), "language": "python"}


def _drawn(work: Any, draw: Callable[[], Program]) -> dict[str, Any] | None:
    """A program of the pool as the kernel that it becomes."""
    for _ in range(MOST_KERNELS):
        program = draw()
        text = raw_kernels.kernel_of(program["program"], program["cls"], work.source, work.kind, work.classes, work.gpu)
        if text:
            return {
                "source": text, "cls": program["cls"], "change": program["change"], "why": program["why"],
                "predicted_ms": program.get("predicted_ms"),
            }  # fmt: skip
    return None


# ---- the profile ----


def _derived(prompt: str) -> dict[str, Any]:
    profiles = _PROFILE.findall(prompt)
    text = profiles[-1][1] if profiles else ""
    stages = [(f"stage {name}", float(ms), bound) for name, ms, bound in _BOUND.findall(text)]
    stages += [
        (f"kernel {name[:NAME]}", float(ms), f"{what} ({share}% of its peak)")
        for name, ms, compute, memory in _MEASURED.findall(text)
        for share, what in [max((compute, "compute"), (memory, "memory"), key=lambda one: float(one[0]))]
    ]
    if not stages:
        return {"bottleneck": "Rehearsed: the profile names no stage that a rule can read.", "observations": []}
    name, ms, bound = max(stages, key=lambda stage: stage[1])
    total = sum(stage[1] for stage in stages) or 1.0
    return {
        "bottleneck": f"Rehearsed: {name} is bound by {bound} and takes {100 * ms / total:.0f}% of the time.",
        "observations": [f"{name}: {ms:.4g} ms, bound by {bound}" for name, ms, bound in stages[:MOST_FACTS]],
    }


__all__ = ["value"]
