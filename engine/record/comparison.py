"""Compare a run of a record's candidates with the record, trial by trial:

    reproduced       right again, and the ratio to the same baseline is the recorded one within both intervals
    not reproduced   wrong, refused, or another ratio
    same prediction  record and run are predictions of one model for one device, and agree: nothing was measured
    other prediction they do not agree: the model or the compiler's choices changed since
    not comparable   the record was measured on a GPU that is not here, or nothing ran; `why` says which

The web process loads this module, so it imports nothing heavy.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.record import NOT_COMPARABLE, NOT_REPRODUCED, OTHER, REPRODUCED, SAME, BadRecord, Row
from engine.session import events
from engine.session.spec import of_started
from engine.strategies.again import options_of
from engine.strategies.api import Candidate

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
            text, p["cls"], backend if form == "program" else "", form, p.get("language", ""), p.get("entry", ""),
            p.get("rest", ""),
        )  # fmt: skip
    return chosen


def spec_of(record: Mapping[str, Any], trials: list[int], device: str) -> dict[str, Any]:
    """The fields of a session that runs these trials again, with fresh inputs. Raises BadRecord."""
    started = events.decode(events.SessionStarted.KIND, record["events"][0]["data"])
    assert isinstance(started, events.SessionStarted)
    source = record["texts"].get(started.source)
    if source is None:
        raise BadRecord("the record holds no source: its owner shared the results alone")
    candidates = candidates_of(record, trials)
    return of_started(started, source) | {
        "device": device, "seed": secrets.randbits(31), "trials": len(candidates), "strategy": "again",
        "options": options_of(candidates),
    }  # fmt: skip


def recorded_of(record: Mapping[str, Any], trial: int) -> dict[str, Any]:
    """What a record says of a trial, for `compare`; empty if the trial has no time."""
    fields = record["fields"]
    return _facts(fields["verdict"].get(str(trial), {}), fields["samples"]["trials"].get(str(trial)))


def outcomes_of(recorded: Mapping[int, Mapping[str, Any]], rows: Iterable[Row]) -> list[Outcome]:
    """What a log says about the trials of a record. `recorded`: trial -> `recorded_of`, in the order in which the
    strategy `again` tried them; trials of the owner between them do not count. `rows`: {kind, data} of the log."""
    steps: dict[int, dict[str, Any]] = {}
    tried: list[int] = []
    end: Mapping[str, Any] = {}
    for row in rows:
        kind, data = row["kind"], row["data"]
        if kind == "session.ended":
            end = data
        elif kind.startswith("trial.") and "trial" in data:
            steps.setdefault(data["trial"], {})[kind.removeprefix("trial.")] = data
            if kind == "trial.proposed" and data.get("by", "strategy") == "strategy":
                tried.append(data["trial"])
    numbers = dict(zip(recorded, tried, strict=False))
    return [_outcome(n, dict(facts), steps.get(numbers.get(n, 0), {}), end) for n, facts in recorded.items()]


def _outcome(trial: int, recorded: dict[str, Any], steps: Mapping[str, Any], end: Mapping[str, Any]) -> Outcome:
    again = _facts(steps, steps.get("measured"))
    failed = steps.get("failed")
    if recorded and not again and (not steps or (failed or {}).get("cause") in ("owner", "run")):
        why = failed["reason"] if failed else end.get("reason") or "the session has not ended"
        return Outcome(trial, NOT_COMPARABLE, f"it did not run here: {why}", recorded, again)
    return Outcome(trial, *compare(recorded, again, _stopped(steps, end)), recorded, again)


def _stopped(steps: Mapping[str, Any], end: Mapping[str, Any]) -> str:
    """Why a candidate got no verdict."""
    for step, name in (("failed", "reason"), ("untimed", "text")):
        if step in steps:
            return str(steps[step][name])
    return "" if "judged" in steps else str(end.get("reason", ""))


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
