"""A session of a comparison as a row of its results.

    {arm, strategy, problem, skill, seed, state, code, reason (unless done and solved), cls, limit_ms, baseline_ms,
     kind, trials: [..], words: {step: ..}, evaluations, turns, tokens: {in, out, ..}, unknown, cost, seconds: {..},
     lesson, turns_of}

A trial: {n, ms, ratio, gap, counts, verdict, bad: [filters that refused it], step, code, used, tokens, cost, t}.
`used`, `tokens`, `cost` and `t` are those of the session when the trial ended: evaluations, model tokens, US dollars,
seconds. `ms` and `ratio` (over PyTorch in the class) are given whatever the verdict; `would`: they are of a program
with wrong results, which has no time in the session, as the device's model predicts it. `words`: the first message of a
trial that does not count, by the step that ended it. `seconds`, by kind: model, build, verify, time, profile, pytorch,
trace, think, wait, all. `lesson`: what a strategy led by a model learned for
other problems; `turns_of`: with one budget over all problems, in the first row of an arm, the problems in their turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bench.compare import metrics
from engine.evaluate.integrity.trial import GAMING, LIBRARY, WRONG
from engine.llm.ledger import ledger
from engine.session import events
from engine.session.fold.reduce import View, fold
from engine.session.fold.view import Trial
from engine.session.script.steps import Emitted

BAD = (GAMING, LIBRARY, WRONG)
WORDS, REASON = 200, 600  # characters of a message, and of the end of a session
RESULTS = "results"  # the filter that compares results with the module's
KINDS = {"turn": "model", "build": "build", "pytorch": "pytorch", "trace": "trace", "prepare": "trace",
         "think": "think", "profile": "profile"}  # fmt: skip


def row_of(
    about: Mapping[str, Any], cls: str, emitted: Sequence[Emitted], used: Sequence[int], would: Mapping[int, float],
    lesson: str = "",
) -> dict[str, Any]:  # fmt: skip
    """`about`: of the cell; `used`: the evaluations after each event; `would`: trial -> the time predicted for a
    program with wrong results."""
    log = [e.event for e in emitted]
    view = fold(
        {"seq": i, "kind": e.event.KIND, "t": e.t, "data": events.encode(e.event)} for i, e in enumerate(emitted, 1)
    )
    account = ledger(log).total
    baseline = view.beside(cls)
    end, search = view.end, [t for t in view.trials.values() if t.ended and t.of_search]
    row = {
        **about, "state": end.state if end else "", "code": end.code if end else "",
        "reason": end.reason[:REASON] if end and (end.state != "done" or not any(map(view.counts, search))) else "",
        "cls": cls, "limit_ms": view.bounds.get(cls), "baseline_ms": baseline.ms if baseline else None,
        "kind": str(view.device.get("kind", "")), "trials": _trials(view, emitted, used, would),
        "words": _words(view, search),
        "evaluations": used[-1] if used else 0, "turns": account.turns, "tokens": dict(account.tokens),
        "unknown": account.unknown, "cost": account.cost, "seconds": _seconds(view, emitted),
    }  # fmt: skip
    return row | ({"lesson": lesson} if lesson else {})


def _words(view: View, search: Sequence[Trial]) -> dict[str, str]:
    """The first message of a trial that does not count, by the step that ended it."""
    words: dict[str, str] = {}
    for t in search:
        if view.counts(t):
            continue
        ended = t.failed or t.untimed
        step, text = (ended.step, ended.reason) if ended is not None else ("judge", t.judged.algebraic or t.judged.text)
        words.setdefault(step, " ".join(text.split())[:WORDS])
    return words


def _trials(
    view: View, emitted: Sequence[Emitted], used: Sequence[int], would: Mapping[int, float]
) -> list[dict[str, Any]]:
    rows, tokens, cost = [], 0, 0.0
    for e, evaluations in zip(emitted, used, strict=True):
        if isinstance(e.event, events.Answered):
            tokens += e.event.tokens.get("in", 0) + e.event.tokens.get("out", 0)
            cost += e.event.cost or 0.0
        if isinstance(e.event, events.ENDS):
            trial = view.trials[e.event.trial]
            if trial.of_search:
                spent = {"used": evaluations, "tokens": tokens, "t": round(e.t - emitted[0].t, 3)}
                rows.append(_trial(view, trial, would) | spent | ({"cost": round(cost, 6)} if cost else {}))
    return rows


def _trial(view: View, t: Trial, would: Mapping[int, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"n": t.number, "counts": view.counts(t)}
    baseline = view.beside(t.cls)
    if t.judged is not None:
        j = t.judged
        row |= {"ms": _short(j.ms), "ratio": _short(j.speedup), "gap": _short(j.gap), "verdict": j.verdict}
        if j.algebraic and not row["counts"]:
            row["bad"] = ["algebra"]
        return row | _bad(j.evidence)
    if t.untimed is not None:
        return row | {"verdict": t.untimed.verdict, "step": t.untimed.step, "code": t.untimed.code} | _bad(
            t.untimed.evidence
        )  # fmt: skip
    row |= {"step": t.failed.step, "code": t.failed.code, "cause": t.failed.cause} | _bad(t.failed.evidence)
    if t.number in would and baseline is not None and baseline.ms:
        ms = would[t.number]
        row |= {"ms": _short(ms), "ratio": _short(baseline.ms / ms), "would": True, "bad": [RESULTS]}
    return row


def _short(value: float | None) -> float | None:
    """Six digits, which keeps the results file small."""
    return None if value is None else float(f"{value:.6g}")


def _bad(evidence: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The filters that refused a trial: the names of the evidence that does not count. What was inherited from a parent
    (lineage) stands beside the finding itself, so it is no filter of its own."""
    names = [str(line.get("name")) for line in evidence if line.get("verdict") in BAD]
    names = [name for name in dict.fromkeys(names) if name != "lineage"]
    return {"bad": names} if names else {}


def _seconds(view: View, emitted: Sequence[Emitted]) -> dict[str, float]:
    """By kind. The time of the device in a trial is divided by its events: up to its validation, and after it."""
    seconds: dict[str, float] = dict.fromkeys(metrics.KINDS, 0.0)
    spent = view.end.spent if view.end is not None else {}
    for name, value in spent.items():
        kind = "wait" if name.startswith("wait_") else KINDS.get(name)
        if kind is not None:
            seconds[kind] = seconds.get(kind, 0.0) + value
    for t in view.trials.values():
        steps = {name: at for name, at in t.steps.items() if at is not None}
        begun = steps.get("compiled", steps.get("generated"))
        verified = steps.get("validated")
        if begun is not None:
            ended = verified if verified is not None else steps.get("failed", steps.get("untimed", begun))
            seconds["verify"] += max(0.0, ended - begun)
        if verified is not None:
            seconds["time"] += max(0.0, steps.get("judged", steps.get("failed", verified)) - verified)
    seconds["all"] = emitted[-1].t - emitted[0].t if emitted else 0.0
    return {name: round(value, 3) for name, value in seconds.items()}
