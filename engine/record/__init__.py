"""The record of a session: what its results rest on, each field bound by its SHA-256, and the session's id by all.

    {"version": 1, "id": "<sha-256>", "hashes": {field: sha-256}, "fields": {field: value},
     "events": [{seq, kind, t, data}...], "texts": {sha-256: text}, "reproductions": [...]}

`fields` says in one place what the log says in many (FIELDS). The hash of a field is that of its canonical JSON, and
the id is the hash of `hashes`, so a link that names the id fixes everything. `events` and `texts` are the evidence:
`faults` computes the fields from them again and names each one that differs. `reproductions` come later and are not
bound. A text that its owner did not share is missing from `texts`, and its name in the fields still fixes it.

This package imports only `engine.session.events` and the recording, because the web process loads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.session import events
from engine.session.recording import blob_names

VERSION = 1
ID_LENGTH = 36  # of a snapshot's link: 27 bytes of its record's id
FIELDS = {
    "reference": "the module or program that was optimised, by the hash of its text",
    "request": "strategy, classes, budget and options",
    "program": "every candidate: its text, what it was resolved and generated to, by their hashes",
    "toolchain": "the device, its driver, compilers, and how each candidate was built",
    "seeds": "of the session, and of the inputs of each round of each check",
    "bound": "the limit of each class, and the report and graph that it was derived from",
    "samples": "every timing with its raw sample, clocks, method and interval",
    "verdict": "how each candidate was judged",
    "transcript": "the model's turns",
    "end": "how the session ended",
    "notes": "the owner's notes on trials",
    "shared": "what its owner shared: source, transcript",
    "log": "number of events, and the hash of the whole log",
}
TURNS = tuple(e.KIND for e in (events.Asked, events.Said, events.Answered, events.Shown, events.Advanced))
KEYS = tuple(e.KIND for e in (events.KeyWanted, events.KeyReceived))
ALL = {"source": True, "transcript": True}
REPRODUCED, NOT_REPRODUCED, NOT_COMPARABLE = "reproduced", "not reproduced", "not comparable"
SAME, OTHER = "same prediction", "other prediction"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, NOT_COMPARABLE, SAME, OTHER)  # of a run (engine.record.rerun)
Row = Mapping[str, Any]  # {seq, kind, t, data}


class BadRecord(ValueError):
    """What was read is no record; the message says why, in one sentence."""


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and without spaces, in UTF-8: the same bytes for the same value everywhere."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def link_of(record_id: str) -> str:
    """The name of a snapshot's link, from the id of its record."""
    return base64.urlsafe_b64encode(bytes.fromhex(record_id)[:27]).decode()


def fields_of(
    rows: Sequence[Row], notes: Mapping[int, str] | None = None, shared: Mapping[str, bool] = ALL, turns: str = ""
) -> dict[str, Any]:
    """The fields of a log. `turns`: the hash of the model's turns, if they are not in `rows`."""
    first = next((r["data"] for r in rows if r["kind"] == events.SessionStarted.KIND), None)
    if first is None:
        raise BadRecord(f"the log has no {events.SessionStarted.KIND}")
    fields: dict[str, Any] = {
        "reference": {"text": first.get("source", ""), "kind": first.get("source_kind", "")},
        "request": {k: first.get(k) for k in ("title", "strategy", "classes", "budget", "algebraic", "options")},
        "program": {}, "toolchain": {"device": first.get("device", {}), "built": {}},
        "seeds": {"session": first.get("seed", 0), "rounds": {}},
        "bound": {}, "samples": {"baselines": [], "trials": {}}, "verdict": {}, "end": None,
    }  # fmt: skip
    for row in rows:
        _take(fields, row["kind"], row["data"])
    turned = [[r["kind"], r["data"]] for r in rows if r["kind"] in TURNS]
    return fields | {
        "transcript": {"turns": len(turned), "sha256": turns or digest(turned)},
        "notes": {str(trial): text for trial, text in sorted((notes or {}).items())},
        "shared": dict(shared),
        "log": {"events": len(rows), "sha256": digest([[r["seq"], r["kind"], r["t"], r["data"]] for r in rows])},
    }


def _take(fields: dict[str, Any], kind: str, data: Mapping[str, Any]) -> None:
    trial = str(data.get("trial", ""))
    program = fields["program"]
    if kind == "trial.proposed":
        names = ("form", "cls", "backend", "program", "language", "entry", "by", "rest")
        program[trial] = {name: data[name] for name in names if data.get(name)}
    elif kind == "trial.checked":
        program.setdefault(trial, {})["resolved"] = data["resolved"]
    elif kind == "trial.generated":
        program.setdefault(trial, {})["sources"] = {name: s["text"] for name, s in data["sources"].items()}
    elif kind == "trial.compiled":
        fields["toolchain"]["built"][trial] = {name: data.get(name) for name in ("backend", "how", "resources")}
    elif kind == "trial.validated":
        fields["seeds"]["rounds"][trial] = [c["seed"] for c in data["checks"] if "seed" in c]
        fields["verdict"].setdefault(trial, {})["validated"] = dict(data)
    elif kind == "trial.measured":
        fields["samples"]["trials"][trial] = dict(data)
    elif kind == "baseline":
        fields["samples"]["baselines"].append(dict(data))
    elif kind in ("trial.judged", "trial.untimed", "trial.failed"):
        fields["verdict"].setdefault(trial, {})[kind.removeprefix("trial.")] = dict(data)
    elif kind == "traced":
        fields["bound"]["graph"] = data["graph"]
    elif kind == "reported":
        fields["bound"] |= {"report": data["report"], "ms": data["bounds"], "hardware": data.get("hardware", "")}
    elif kind == "session.ended":
        fields["end"] = dict(data)


def build(
    rows: Iterable[Row], texts: Mapping[str, str], notes: Mapping[int, str] | None = None,
    shared: Mapping[str, bool] = ALL, turns: str = "",
) -> dict[str, Any]:  # fmt: skip
    """The record of a log with those of `texts` that the log names. Raises BadRecord."""
    events_ = [{name: row[name] for name in ("seq", "kind", "t", "data")} for row in rows]
    fields = fields_of(events_, notes, shared, turns)
    hashes = {name: digest(value) for name, value in fields.items()}
    named = blob_names([row["data"] for row in events_])
    return {
        "version": VERSION, "id": digest(hashes), "hashes": hashes, "fields": fields, "events": events_,
        "texts": {name: texts[name] for name in sorted(named & texts.keys())}, "reproductions": [],
    }  # fmt: skip


def faults(record: Mapping[str, Any]) -> list[str]:
    """Every altered field, with what is wrong with it; empty for a record as it was made. Raises BadRecord."""
    try:
        version, fields, hashes, rows = (record[name] for name in ("version", "fields", "hashes", "events"))
        texts = record["texts"]
        if version != VERSION:
            raise BadRecord(f"the record has version {version}; this program reads version {VERSION}")
        shared, notes = fields.get("shared", ALL), fields.get("notes", {})
        turns = "" if shared.get("transcript") else fields.get("transcript", {}).get("sha256", "")
        again = fields_of(rows, {int(trial): text for trial, text in notes.items()}, shared, turns)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        if isinstance(e, BadRecord):
            raise
        raise BadRecord(f"this is no record of a session ({type(e).__name__}: {e})") from None
    wrong = [f"{name}: there is no such field in a record" for name in fields.keys() - FIELDS.keys()]
    for name in FIELDS:
        if name not in fields:
            wrong.append(f"{name}: it is missing")
            continue
        place = differs(again[name], fields[name], name)
        if place:
            wrong.append(f"{place}: the log says something else")
        elif digest(fields[name]) != hashes.get(name):
            wrong.append(f"{name}: it does not have the SHA-256 that the record states")
    if set(hashes) - set(FIELDS):
        wrong.append(f"hashes.{min(set(hashes) - set(FIELDS))}: there is no such field in a record")
    if digest(hashes) != record.get("id"):
        wrong.append("id: it is not the SHA-256 of the fields' hashes")
    named = blob_names([row["data"] for row in rows])
    for name, text in texts.items():
        if not isinstance(text, str) or events.blob_name(text) != name:
            wrong.append(f"texts.{name[:12]} ({_role(fields, name)}): it does not have the SHA-256 that is its name")
        elif name not in named:
            wrong.append(f"texts.{name[:12]}: no event names it")
    if shared.get("source"):
        wanted = {fields["reference"]["text"]: "reference"} if "reference" in fields else {}
        wanted |= {p["program"]: f"program.{n}" for n, p in fields.get("program", {}).items() if "program" in p}
        wrong += [f"{role}: its text is missing" for name, role in wanted.items() if name not in texts]
    return wrong


def counted(record: Mapping[str, Any]) -> tuple[int, int]:
    """(runs that reproduced it, runs that could have) of a record's reproductions; a prediction confirms nothing."""
    verdicts = [run.get("verdict") for run in record.get("reproductions") or ()]
    good, bad = verdicts.count(REPRODUCED), verdicts.count(NOT_REPRODUCED)
    return good, good + bad


def differs(mine: Any, theirs: Any, place: str) -> str:
    """The first place at which two JSON values differ; "" if they are the same."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for name in sorted({*mine, *theirs}):
            if name not in mine or name not in theirs:
                return f"{place}.{name}"
            if inner := differs(mine[name], theirs[name], f"{place}.{name}"):
                return inner
        return ""
    if isinstance(mine, list) and isinstance(theirs, list):
        for number, (a, b) in enumerate(zip(mine, theirs, strict=False)):
            if inner := differs(a, b, f"{place}[{number}]"):
                return inner
        return "" if len(mine) == len(theirs) else f"{place}[{min(len(mine), len(theirs))}]"
    return "" if canonical(mine) == canonical(theirs) else place


def _role(fields: Mapping[str, Any], name: str) -> str:
    if fields.get("reference", {}).get("text") == name:
        return "reference"
    for trial, program in fields.get("program", {}).items():
        if name in blob_names(program):
            return f"program of trial {trial}"
    return next((role for role in ("bound", "transcript") if name in blob_names(fields.get(role))), "a text of the log")
