"""What limits the best program of a session so far and what to try next, in one sentence.

It comes from the log and the SOL report alone: the trial's gap, its stages as the model of the device predicts them,
the compiler's resources, and the levers of the report that no trial used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from engine.session.fold import slower
from engine.session.fold.profile import BOUND, longest
from engine.session.fold.readers import objects
from engine.session.fold.reduce import View
from engine.session.fold.view import Trial
from engine.words import class_name
from sol.budget import gap_says_nothing
from sol.levers import Lever

Report = Mapping[str, Any]  # a sol.report as plain data
NEAR = 1.1  # times the limit: more trials gain little
OFF = 1.25  # measured over predicted: the model does not know what takes the time
WORTH = 1.03  # predicted speedup of a lever that is worth a trial
UNITS = {
    "matrix": "the matrix units", "vector": "the arithmetic pipes", "special": "the special function units",
    "memory": "memory bandwidth",
}  # fmt: skip
LESS = {
    "matrix": "less work or a lower precision class", "memory": "moving fewer bytes",
    "vector": "fewer or cheaper operations", "special": "fewer or cheaper functions",
}  # fmt: skip
REMEDY = {
    "tensor": "another tile, cluster or schedule for it",
    "vector": "fewer operations on the arithmetic pipes",
    "special": "cheaper functions in it",
    "memory": "fusing it with its neighbours, so that it moves fewer bytes",
    "l2": "a larger tile or a wider cluster, so that it fetches its operands less often",
    "epilogue": "a shorter epilogue, or a schedule that overlaps it with products",
    "launch": "merging it into a neighbouring stage",
    "fill": "merging it with a neighbouring product, because its work is shorter than filling its pipeline",
}
ALONE = "another tile, so that it reads its operands less often"  # a product bound by memory, with nothing to fuse
PASSES = "wider loads, or fewer passes over its operands"  # another stage, with nothing to fuse
PRODUCTS = ("gemm", "grouped", "conv")  # beginnings of their words
COPY = "reading its source directly, without this copy"


def sentence(view: View, report: Report | None) -> str:
    """One sentence on the trial that represents the session; "" before any trial has a time that counts. After an end
    without a faster program, why PyTorch is faster, unless the end says so itself."""
    trial = view.shown
    if trial is None or not trial.judged.ms:
        return ""
    if view.end is not None and view.headline is None and (why := slower.sentences(view, report)):
        return "" if why in view.end.reason else why
    j, stages = trial.judged, [s for s in trial.stages if s.get("ms")]
    who = f"Trial {trial.number} ({class_name(j.cls)})"
    if view.headline is None:
        who = f"No program is faster than PyTorch so far; the fastest, trial {trial.number} ({class_name(j.cls)}),"
    bound = report["bounds"].get(trial.roof or j.cls) if report is not None else None
    if gap_says_nothing(j.ms, j.gap):
        return f"{who} is bound by the launch: {_launches(len(stages))}."
    if j.gap and j.gap <= NEAR and bound is not None and bound["bound_by"] in UNITS:
        unit = bound["bound_by"]
        sets = f"{UNITS[unit]} {'sets' if unit == 'memory' else 'set'}"
        return f"{who} is within {max(j.gap - 1, 0.0):.0%} of the limit, which {sets}: only {LESS[unit]} helps much."
    parts = [f"{who} takes {j.gap:.2f} times the limit" if j.gap else f"{who} has no limit", _bottleneck(stages)]
    if not stages and bound is not None:
        unit = max(bound["parts"], key=lambda u: bound["parts"][u])
        needs = f"{UNITS.get(unit, unit)} {'needs' if unit == 'memory' else 'need'}"
        parts.append(f"at full rate, {needs} {bound['parts'][unit] / j.ms:.0%} of that time")
    advice = _advice(view, report, trial, stages)
    return "; ".join([*filter(None, parts), *([f"try next: {advice}"] if advice else [])]) + "."


def _bottleneck(stages: list[dict[str, Any]]) -> str:
    slow = longest(stages)
    if slow is None:
        return ""
    by = slow.get("bound_by", "")
    binds = f"is bound by {BOUND.get(by, by)}" if by else "takes longest"
    if len(stages) == 1:
        return f"by the model, it {binds}"
    share = slow["ms"] / sum(s["ms"] for s in stages)
    return f"by the model, its stage {slow['name']} takes {share:.0%} of the time and {binds}"


def _launches(stages: int) -> str:
    if stages > 1:
        return f"its {stages} launches take far longer than their work; try next to merge them"
    return "one launch takes far longer than its work, so that only fewer calls or a CUDA graph save time"


def _advice(view: View, report: Report | None, trial: Trial, stages: list[dict[str, Any]]) -> str:
    """What to try, the most certain first; "" where nothing is known of the program."""
    slow, j = longest(stages), trial.judged
    resources = objects((trial.compiled or {}).get("resources"))
    if any(r.get("spill_bytes") for r in resources):
        return "a smaller tile or a shorter epilogue, because registers are spilled to memory"
    if report is not None and (lever := _untried(view, report)) is not None:
        return f"{lever.title[0].lower()}{lever.title[1:]} (predicted {lever.speedup:.2f}x over PyTorch)"
    if slow is None:
        return ""
    predicted = sum(s["ms"] for s in stages)
    if j.kind == "measured" and trial.region is None and j.ms > OFF * predicted:  # a region's stages are not the module
        return f"a profile, because it takes {j.ms / predicted:.2f} times what the model of the device predicts"
    by = slow.get("bound_by", "")
    if slow.get("kind") == "transform" and by in ("memory", "l2"):
        return COPY
    if by == "memory" and len(stages) == 1:
        return ALONE if str(slow.get("kind")).startswith(PRODUCTS) else PASSES
    return REMEDY.get(by, "")


def _untried(view: View, report: Report) -> Lever | None:
    """The report's best lever that is worth a trial and that no trial uses; a class is the person's choice."""
    levers = (x for x in untried(view, report["levers"]) if x.action != "lower_class")
    return next((x for x in levers if x.speedup >= WORTH), None)


def untried(view: View, levers: Iterable[Mapping[str, Any]], waiting: Collection[str] = ()) -> list[Lever]:
    """Those of a report's levers that no trial uses, in their order. A trial counts in whatever class it is, and from
    its check on; one that failed or does not count used none. `waiting`: actions of candidates that are no trials yet.
    """
    known = {f.name for f in dataclasses.fields(Lever)}
    tried = [t for t in view.trials.values() if not t.ended or (t.judged is not None and t.judged.counts)]
    used = {*waiting, *(action for t in tried for action in t.tried)}
    classes = {t.cls for t in tried}
    all_levers = (Lever(**{k: v for k, v in x.items() if k in known}) for x in levers)
    return [x for x in all_levers if (x.target not in classes if x.action == "lower_class" else x.action not in used)]
