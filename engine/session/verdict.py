"""The verdict on a measured trial: its evidence, and its time against the limit, the baseline and the current best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsl.check.program import check
from dsl.ir import Program
from engine.classes import class_of, class_words, roof_of
from engine.evaluate.integrity import trial as integrity
from engine.evaluate.integrity.clocks import TOO_FAST
from engine.session import events
from engine.session.fold.view import COUNTING
from engine.strategies.api import Candidate
from engine.words import baseline_name
from sol import budget

CALL_TIMES = (
    "call_times",
    "unconfirmed",
)  # names of the evidence that a time is one of calls; the second until 2026-11


def limiting(text: str, cls: str) -> str:
    """The class whose limit applies to a program of class `cls`. Guarded f16 is in class tf32, under the limit of
    f16."""
    program = check(text).program if "guard" in text else None
    return roof_of(program) if program is not None and program.guard else cls


def roof(candidate: Candidate) -> str:
    """The class whose limit applies to a candidate."""
    return limiting(candidate.text, candidate.cls) if candidate.form == "program" else candidate.cls


@dataclass(frozen=True)
class _Read:
    """What the text of a program says about its class."""

    derived: str
    roof: str
    guarded: bool = False
    words: str = ""


def _read(candidate: Candidate) -> _Read:
    program: Program | None = check(candidate.text).program
    if program is None:
        return _Read(candidate.cls, candidate.cls)
    return _Read(class_of(program), roof_of(program), bool(program.guard), class_words(program))


def judge(
    number: int,
    candidate: Candidate,
    measured: events.TrialMeasured,
    best_ms: float | None,
    limits: Mapping[str, float],
    left_out: Any = None,
    *,
    algebraic: bool = False,
) -> events.TrialJudged:
    """The verdict from the measured event. `best_ms`: of the class, when the trial was proposed; `limits`: class ->
    t_sol in ms; `left_out`: the engine.strategies.problem.Algebraic of a program that omits work, which may be the best
    if `algebraic` is true."""
    m, text = measured, _read(candidate)
    held_to = roof(candidate)
    ms, limit = m.time.ms, limits[held_to]
    if left_out is not None:  # compare with the limit of what it computes
        limit = left_out.limits.get(held_to, limit)
    gap = budget.gap(ms, limit)
    kind = "measured" if isinstance(m.time, events.Measurement) else "predicted"
    evidence = [
        *m.checks,
        integrity.of_precision(text.derived, candidate.cls, text.roof),
        integrity.of_limit(gap, limit, TOO_FAST),
    ]
    if left_out is not None:
        evidence.append(integrity.check("algebra", integrity.MINOR, left_out.words))
    verdict = integrity.worst(evidence)
    counts = verdict in COUNTING
    offered = left_out is not None and not algebraic
    best = counts and not offered and m.ratio > 1 and (best_ms is None or ms < best_ms)
    standing = "best" if best else "flagged" if not counts else "algebraic" if offered else "slower"
    if not counts:
        why = next(c["said"] for c in evidence if c["verdict"] == verdict)
        words = f"{ms:.3g} ms {kind}, but it is not counted: {why}"
    else:
        words = f"{ms:.3g} ms {kind}{' for the whole module' if m.part else ''}, "
        words += f"{_factor(m.ratio)} {baseline_name(m.baseline)}, {budget.times_limit(gap, limit)}"
        words += f" of {text.roof} ({text.words})" if text.guarded and not budget.launch_binds(limit) else ""
        if theirs := m.part.get("region_eager_ms"):
            region = f"region {m.part['region']} alone {m.part['region_ms']:.3g} ms"
            words += f"; {region}, {_factor(theirs / m.part['region_ms'])} PyTorch's own {theirs:.3g} ms for it"
        words += "; all of it as one CUDA graph" if m.part.get("graph") else ""
        words += "; what stays PyTorch compiled by Inductor" if m.part.get("rest") else ""
        if beside := m.part.get("beside"):
            s = "" if len(beside) == 1 else "s"
            words += f"; beside it ran the program{s} of trial{s} {' and '.join(map(str, beside))}"
        words += f"; {fault}" if (fault := integrity.tripped(m.checks)) else ""
        words += f"; the best in {candidate.cls} so far" if best else ""
        words += f"; algebraic ({left_out.words}): no best unless it is allowed" if offered else ""
    return events.TrialJudged(
        number, verdict, candidate.cls, kind, ms, m.ratio, m.baseline, gap, budget.score(ms, limit, m.baseline_ms),
        best, words, evidence, left_out.words if left_out else "", standing,
    )  # fmt: skip


def judge_kernel(
    number: int, cls: str, measured: events.TrialMeasured, best_ms: float | None, limit: float,
    earlier: Sequence[dict[str, Any]],
) -> events.TrialJudged:  # fmt: skip
    """The verdict on a measured raw kernel. `best_ms` and `limit` (t_sol): of class `cls`, in ms; `earlier`: the
    evidence of its text and its rounds. A library-only kernel is neither the best nor a speedup."""
    m, ms = measured, measured.time.ms
    gap = budget.gap(ms, limit)
    evidence = [*earlier, *m.checks, integrity.of_limit(gap, limit, TOO_FAST)]
    verdict = integrity.worst(evidence)
    best = verdict in COUNTING and m.ratio > 1 and (best_ms is None or ms < best_ms)
    if verdict in COUNTING:
        calls = any(line["name"] in CALL_TIMES for line in m.checks)
        how = "a call from Python" if calls else "measured"
        words = f"{ms:.3g} ms {how}, "
        words += f"{_factor(m.ratio)} {baseline_name(m.baseline)}, {budget.times_limit(gap, limit)}"
        words += f"; the best in {cls} so far" if best else ""
    else:
        why = next(c["said"] for c in evidence if c["verdict"] == verdict)
        words = f"{ms:.3g} ms measured, but it is not counted: {why}"
    return events.TrialJudged(
        number, verdict, cls, "measured", ms, m.ratio, m.baseline, gap, budget.score(ms, limit, m.baseline_ms), best,
        words, evidence, standing="best" if best else "slower" if verdict in COUNTING else "flagged",
    )  # fmt: skip


def inherited(
    evidence: Sequence[Mapping[str, Any]], ancestors: Sequence[tuple[int, Sequence[Mapping[str, Any]]]]
) -> list[dict[str, Any]]:
    """A line of evidence for each finding that an ancestor has, too: it came with the text and is no new idea.
    `ancestors`: (trial, its evidence), the nearest first."""
    lines = []
    for line in evidence:
        if line["verdict"] not in (integrity.LIBRARY, integrity.GAMING):
            continue
        same = [n for n, theirs in ancestors if any((x["name"], x["verdict"]) == (line["name"], line["verdict"])
                                                    for x in theirs)]  # fmt: skip
        if same:
            sentence = f"inherited from trial {same[-1]}, which has the same finding ({line['name']})"
            lines.append(integrity.check("lineage", line["verdict"], sentence))
    return lines


def _factor(ratio: float) -> str:
    return f"{ratio:.2f}x faster than" if ratio >= 1 else f"{1 / ratio:.2f}x slower than"
