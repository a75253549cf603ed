"""What a prompt says about a problem and its trials, as plain values for the templates, each of bounded size.

A candidate is shown to its end: who is asked for the whole text again cannot write what they have not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsl.printer import to_text
from engine.llm.prompts import reference
from engine.llm.replies import MOST_TEXT
from engine.session import kernel_text
from engine.strategies.problem import Part, Prepared
from engine.strategies.state import Finished, State
from sol.report import report

MOST_TRIALS = 16  # rows of the history
MOST_REPORT = 9_000  # characters of the report
MOST_LOG = 3_000  # of a compiler's words
MOST_PARTS = 4


def report_of(problem: Prepared, state: State) -> str:
    """The speed-of-light report, cut at `MOST_REPORT` characters."""
    baselines = state.baselines if problem.device_kind == "measured" else None
    sol_report = report(problem.graph, problem.hardware, measured=baselines, asked=problem.allowed)
    return sol_report.to_markdown()[:MOST_REPORT]


def of_problem(problem: Prepared, state: State, *, form: str, report: str, seed: bool) -> dict[str, Any]:
    """The facts that every prompt of a problem needs. `form`: program | kernel; `report`: `report_of` or ""; `seed`:
    show the planner's program."""
    return {
        "source": problem.task.source,
        "kind": problem.task.source_kind,
        "gpu": problem.hardware.title,
        "classes": problem.classes if form == "program" else [c for c in problem.allowed if c in kernel_text.CLASSES],
        "baselines": state.baselines,
        "device_kind": problem.device_kind,
        "limits": problem.limits,
        "report": report,
        "form_of_candidates": form,
        "reference": reference() if form == "program" else "",
        "parts": [_part(part, seed) for part in _parts(problem)] if form == "program" else [],
        "cuda_entry": kernel_text.CUDA_ENTRY,
        "cuda_example": kernel_text.EXAMPLES["cuda"],
    }


def _parts(problem: Prepared) -> list[Part]:
    """The parts with most work, each in every class."""
    own = [part for part in problem.parts if part.algebraic is None]
    slowest = sorted({p.number for p in own}, key=lambda n: -max(p.structures[0].ms for p in own if p.number == n))
    return [part for number in slowest[:MOST_PARTS] for part in own if part.number == number]


def _part(part: Part, seed: bool) -> dict[str, Any]:
    text = to_text(part.base)
    title = "The whole module" if part.region is None else f"Region {part.number} of the module"
    return {"title": title, "cls": part.cls, "signature": text.partition("{")[0], "seed": text if seed else ""}


def of_history(state: State, changes: Mapping[int, str], classes: Sequence[str]) -> dict[str, Any]:
    """The trials in a bounded form: one row each, the text of the best, and the text of the last one if it failed."""
    ended = state.trials
    rows = [
        {"number": t.number, "cls": t.cls, "change": changes.get(t.number, f"tried by the {t.by}"), "words": words(t)}
        for t in ended[-MOST_TRIALS:]
    ]
    best, last = fastest(state, classes), ended[-1] if ended and ended[-1].failed else None
    return {
        "trials": rows,
        "skipped": len(ended) - len(rows),
        "best": None if best is None else {"number": best.number, "words": words(best), "text": best.text[:MOST_TEXT]},
        "last": None if last is None else failure(last),
    }


def of_own(own: Finished | None, history: Mapping[str, Any]) -> dict[str, Any] | None:
    """The owner's candidate from before the script, until a right one has a time. `history`: of the same prompt."""
    last = history["last"]
    if own is None or history["best"] is not None or (last is not None and last["number"] == own.number):
        return None
    return {"number": own.number, "words": words(own), "text": own.text[:MOST_TEXT]}


def failure(t: Finished) -> dict[str, Any]:
    """What is known of a candidate that did not pass."""
    lines = [f"line {d.line}: {d.code}: {d.message}" + (f" Help: {d.help}" if d.help else "") for d in t.diagnoses[:6]]
    return {
        "number": t.number, "text": t.text[:MOST_TEXT], "log": t.log[-MOST_LOG:],
        "words": "; ".join([words(t), *lines[1:]] if lines else [words(t)]),
    }  # fmt: skip


def fastest(state: State, classes: Sequence[str]) -> Finished | None:
    """The right candidate that takes the least time for the whole module, of any class; the first of equals."""
    best = [t for cls in classes if (t := state.best(cls)) is not None]
    return min(best, key=lambda t: (t.ms, t.number), default=None)


def words(t: Finished) -> str:
    """The outcome of a trial in one line."""
    if t.failed:
        return f"failed at {t.failed} ({t.code}): {t.reason}"
    if t.ms is None:
        return f"verdict {t.verdict}, no time: {t.reason}"
    counted = "" if t.clean else f"; does not count: {t.verdict}"
    faster = f"{t.speedup:.2f}x PyTorch, " if t.speedup else ""
    return f"right, {t.ms:.4g} ms {t.kind}, {faster}{t.gap or 0:.3g} times the limit{counted}"


def gap(state: State, classes: Sequence[str], limits: Mapping[str, float]) -> float:
    """g of the best candidate that is faster than PyTorch, else of PyTorch: time / limit of its class."""
    best = fastest(state, classes)
    if best is not None and best.gap and (best.speedup or 0.0) > 1:
        return best.gap
    gaps = [ms / limits[cls] for cls, ms in state.baselines.items() if limits.get(cls)]
    return min(gaps, default=10.0)
