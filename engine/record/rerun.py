"""Run the candidates of a record again: the same programs, fresh inputs, the same baselines, the same evaluator.

A session of its own tries the recorded programs in place of a search, so it makes every check that a user's session
makes. What comes out is compared with the record trial by trial:

    reproduced       right again, and the ratio to the same baseline is the recorded one within both intervals
    not reproduced   wrong, refused, or another ratio
    same prediction  record and run are predictions of one model for one device, and agree: nothing was measured
    other prediction they do not agree: the model or the compiler's choices changed since
    not comparable   the record was measured on a GPU that is not here; `why` says so
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.devices import Device
from engine.record import NOT_COMPARABLE, NOT_REPRODUCED, OTHER, REPRODUCED, SAME, BadRecord
from engine.session import events
from engine.session.runner import run
from engine.session.spec import of_started
from engine.strategies.api import Candidate, Script, Strategy, Try

# Two runs on one machine differ by more than the intervals within each run, because heat and clocks differ.
RUN_TO_RUN = 0.05
SAME_PREDICTION = 1e-6
GOOD = ("clean", "minor")


@dataclass(frozen=True)
class Outcome:
    """What a run says about one trial of a record. `recorded` and `again`: {ms, ratio, low, high, baseline, device,
    kind, verdict}, as far as there is something."""

    trial: int
    verdict: str
    why: str
    recorded: dict[str, Any]
    again: dict[str, Any]


class Again(Strategy):
    """Tries given candidates, in their order, and searches nothing."""

    name = "again"
    programs = False

    def __init__(self, candidates: Mapping[int, Candidate]):
        self.candidates = candidates

    def run(self, problem: Any) -> Script:
        for trial, candidate in self.candidates.items():
            yield Try(candidate, f"trial {trial} of the record", "run again")
        return "Every candidate of the record ran again."


def best_trials(record: Mapping[str, Any]) -> list[int]:
    """The trials that the record ends with as best, of each class; else the fastest that was judged."""
    fields = record["fields"]
    best = [int(n) for n in ((fields["end"] or {}).get("best") or {}).values()]
    judged = {int(n): v["judged"] for n, v in fields["verdict"].items() if "judged" in v}
    known = [n for n in dict.fromkeys(best) if n in judged]
    return known or sorted(judged, key=lambda n: judged[n]["ms"])[:1]


def candidates_of(record: Mapping[str, Any], trials: list[int]) -> dict[int, Candidate]:
    """The candidates of these trials. Raises BadRecord for one that is not in the record, or whose text is not."""
    chosen = {}
    for n in trials:
        p = record["fields"]["program"].get(str(n))
        if p is None:
            raise BadRecord(f"the record has no trial {n}")
        text = record["texts"].get(p["program"])
        if text is None:
            raise BadRecord(f"the text of trial {n} is not in the record: its owner did not share the source")
        form, backend = p.get("form", "program"), p.get("backend", "")
        chosen[n] = Candidate(
            text, p["cls"], backend if form == "program" else "", form, p.get("language", ""), p.get("entry", "")
        )
    return chosen


def rerun(
    record: Mapping[str, Any], device: Device | str, trials: list[int], show: Callable[[Any], None] = lambda event: None
) -> list[Outcome]:
    """Run trials of a record on a device, or the one of this name. `show(event)` is called for each event. Raises
    BadRecord."""
    started = events.decode(events.SessionStarted.KIND, record["events"][0]["data"])
    assert isinstance(started, events.SessionStarted)
    source = record["texts"].get(started.source)
    if source is None:
        raise BadRecord("the record holds no source: its owner shared the results alone")
    candidates = candidates_of(record, trials)
    spec = of_started(started, source) | {
        "device": device if isinstance(device, str) else "auto",
        "seed": secrets.randbits(31),
        "trials": len(candidates),
        "strategy": "agent",
        "options": {},
    }
    log: list[Any] = []
    for emitted in run(spec, device=device, local_user=True, teaches=False, strategy=Again(candidates)):
        log.append(emitted.event)
        show(emitted.event)
    return [_outcome(record, n, number, log) for number, n in enumerate(candidates, 1)]


def _outcome(record: Mapping[str, Any], trial: int, number: int, log: list[Any]) -> Outcome:
    fields = record["fields"]
    recorded = _facts(fields["verdict"].get(str(trial), {}), fields["samples"]["trials"].get(str(trial)))
    mine = [(e.KIND.removeprefix("trial."), events.encode(e)) for e in log if getattr(e, "trial", None) == number]
    steps = dict(mine)
    again = _facts(steps, steps.get("measured"))
    return Outcome(trial, *compare(recorded, again, _stopped(steps, log)), recorded, again)


def _stopped(steps: Mapping[str, Any], log: list[Any]) -> str:
    """Why a candidate got no verdict."""
    for step, name in (("failed", "reason"), ("untimed", "text")):
        if step in steps:
            return str(steps[step][name])
    end = next((e for e in reversed(log) if isinstance(e, events.SessionEnded)), None)
    return end.reason if end is not None and "judged" not in steps else ""


def _facts(verdict: Mapping[str, Any], measured: Mapping[str, Any] | None) -> dict[str, Any]:
    judged = verdict.get("judged")
    if judged is None:
        return {}
    facts = {k: judged[k] for k in ("verdict", "cls", "kind", "ms", "baseline")} | {"ratio": judged["speedup"]}
    if measured is not None:
        time = measured["time"]
        facts |= {"low": measured.get("ratio_low"), "high": measured.get("ratio_high")}
        named = time.get("device")
        facts["device"] = named.get("name", "") if isinstance(named, dict) else named
        facts["model"] = time.get("model", "")
    return facts


def compare(recorded: Mapping[str, Any], again: Mapping[str, Any], stopped: str = "") -> tuple[str, str]:
    """(verdict, why) of two runs of one candidate, as `_facts` gives them."""
    if not recorded:
        return NOT_COMPARABLE, "the record has no time for it"
    if not again:
        return NOT_REPRODUCED, stopped or "it got no time"
    if recorded["verdict"] in GOOD and again["verdict"] not in GOOD:
        return NOT_REPRODUCED, f"judged {again['verdict']} here, {recorded['verdict']} in the record"
    kinds = recorded["kind"], again["kind"]
    if kinds == ("measured", "predicted"):
        device = recorded.get("device") or "a GPU"
        return NOT_COMPARABLE, f"measured on {device}; the times here are predictions of a model, which confirm nothing"
    if kinds == ("predicted", "measured"):
        return NOT_COMPARABLE, "the record is a prediction, and a measurement here says nothing about it"
    if recorded.get("device") != again.get("device"):
        return NOT_COMPARABLE, f"other hardware: {recorded.get('device')} in the record, {again.get('device')} here"
    if recorded["baseline"] != again["baseline"]:
        return NOT_COMPARABLE, f"other baseline: {recorded['baseline']} in the record, {again['baseline']} here"
    if kinds == ("predicted", "predicted"):
        same = abs(again["ms"] / recorded["ms"] - 1) <= SAME_PREDICTION
        both = f"{recorded['ms']:.4g} ms in the record, {again['ms']:.4g} ms here; nothing was measured"
        return (SAME, f"one model, one prediction: {both}") if same else (OTHER, f"the model changed: {both}")
    (a, b), (c, d) = _interval(recorded), _interval(again)
    text = f"{recorded['ratio']:.3f}x [{a:.3f}, {b:.3f}] in the record, {again['ratio']:.3f}x [{c:.3f}, {d:.3f}] here"
    overlap = a * (1 - RUN_TO_RUN) <= d and c <= b * (1 + RUN_TO_RUN)
    return (REPRODUCED if overlap else NOT_REPRODUCED), f"{text}, over {recorded['baseline']}"


def _interval(facts: Mapping[str, Any]) -> tuple[float, float]:
    ratio = facts["ratio"]
    low, high = facts.get("low"), facts.get("high")
    return (ratio if low is None else low), (ratio if high is None else high)


def plain(outcomes: list[Outcome], device: str, when: str) -> dict[str, Any]:
    """A run for the record's `reproductions`: {when, device, verdict, trials}."""
    order = (NOT_REPRODUCED, OTHER, NOT_COMPARABLE, SAME, REPRODUCED)  # the worst one stands for the run
    verdict = min((o.verdict for o in outcomes), key=order.index)
    return {"when": when, "device": device, "verdict": verdict, "trials": [asdict(o) for o in outcomes]}
