"""A record is the same for the same log, and a record with any one field altered is refused with the field's name."""

import copy
import json
from pathlib import Path

import pytest

from engine.record import FIELDS, BadRecord, build, digest, faults, link_of
from engine.record.shared import shared
from engine.session import recording

FOLDER = Path(__file__).resolve().parents[3] / "playground" / "recordings"
RECORDINGS = sorted(FOLDER.glob("*.jsonl"))


def record_of(path, **shares):
    log = recording.read(path)
    rows = [vars(row) for row in log.rows]
    if not shares:
        return build(rows, log.blobs, {1: "why this one?"})
    rest, texts, turns = shared(rows, log.blobs, **shares)
    return build(rest, texts, {}, {**shares, "transcript": shares["transcript"] and shares["source"]}, turns)


@pytest.fixture(scope="module")
def record():
    return record_of(FOLDER / "linear_div_gelu.jsonl")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_a_record_holds_what_its_log_says(path):
    record = json.loads(json.dumps(record_of(path)))
    assert faults(record) == [] and list(record["hashes"]) == list(record["fields"])
    assert set(record["fields"]) == set(FIELDS) and record["id"] == record_of(path)["id"]


def leaves(value, place=()):
    """(place, value) of every leaf of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        return [(place, value)]
    return [leaf for name, item in inner for leaf in leaves(item, (*place, name))]


def altered(record, place, value):
    """A copy of the record with another value at one place."""
    copied = copy.deepcopy(record)
    target = copied
    for name in place[:-1]:
        target = target[name]
    target[place[-1]] = value
    return copied


def other(value):
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else f"{value}x"


@pytest.mark.parametrize("field", FIELDS)
def test_an_altered_field_is_named(record, field):
    places = leaves(record["fields"][field], ("fields", field))
    for place, value in places[:: max(1, len(places) // 12)]:
        named = faults(altered(record, place, other(value)))
        assert named and any(fault.startswith(field) for fault in named), (place, named)
    assert any(fault.startswith(field) for fault in faults(altered(record, ("hashes", field), "0" * 64)))
    missing = copy.deepcopy(record)
    del missing["fields"][field]
    assert f"{field}: it is missing" in faults(missing)


def test_an_altered_event_changes_the_log_and_what_it_says(record):
    places = leaves(record["events"], ("events",))
    for place, value in places[:: len(places) // 60]:
        if value is None or place[2:] == ("kind",):
            continue
        try:
            named = faults(altered(record, place, other(value)))
        except BadRecord:
            continue
        assert any(fault.startswith("log.") for fault in named), (place, named)
    judged = next(i for i, e in enumerate(record["events"]) if e["kind"] == "trial.judged")
    named = faults(altered(record, ("events", judged, "data", "ms"), 0.001))
    assert any(fault.startswith("verdict.1.judged.ms") for fault in named)


def test_an_altered_text_is_named_with_its_part(record):
    names = {record["fields"]["reference"]["text"]: "reference"}
    names |= {record["fields"]["program"]["1"]["program"]: "program of trial 1"}
    names |= {record["fields"]["bound"]["report"]: "bound"}
    for name, role in names.items():
        assert role in faults(altered(record, ("texts", name), "another"))[0]
        without = copy.deepcopy(record)
        del without["texts"][name]
        assert bool(faults(without)) == (role != "bound")


def test_the_id_fixes_everything(record):
    assert [f for f in faults(altered(record, ("id",), "0" * 64)) if f.startswith("id")]
    forged = altered(record, ("fields", "notes", "1"), "mine")
    forged["hashes"]["notes"] = digest(forged["fields"]["notes"])
    assert faults(forged) == ["id: it is not the SHA-256 of the fields' hashes"]
    forged["id"] = digest(forged["hashes"])
    assert faults(forged) == [] and link_of(forged["id"]) != link_of(record["id"])


@pytest.mark.parametrize("bad", [{}, {"version": 2}, {"version": 1, "fields": 3}, [], {"version": 1, "events": "x"}])
def test_what_is_no_record_is_refused(bad):
    with pytest.raises(BadRecord):
        faults(bad)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_results_without_the_source_show_no_line_of_it(path):
    log = recording.read(path)
    record = record_of(path, source=False, transcript=True)
    assert faults(record) == []
    text = json.dumps(record, ensure_ascii=False)
    report = record["fields"]["bound"]["report"]
    assert set(record["texts"]) == {report}
    lines = {line.strip() for name, blob in log.blobs.items() if name != report for line in blob.splitlines()}
    lines = {line for line in lines if len(line) > 24 and " " in line}
    known = log.blobs[report]
    assert [line for line in lines if json.dumps(line)[1:-1] in text and line not in known] == []
    for row in record["events"]:
        recording.events.decode(row["kind"], row["data"])
    judged = [r.data["ms"] for r in log.rows if r.kind == "trial.judged"]
    assert [e["data"]["ms"] for e in record["events"] if e["kind"] == "trial.judged"] == judged


def test_results_without_the_transcript_keep_its_hash():
    path = FOLDER / "agent_swiglu.jsonl"
    whole, without = record_of(path), record_of(path, source=True, transcript=False)
    assert faults(without) == []
    assert without["fields"]["transcript"]["sha256"] == whole["fields"]["transcript"]["sha256"]
    assert without["fields"]["transcript"]["turns"] == 0
    assert not any(e["data"].get("why") for e in without["events"] if e["kind"] == "trial.proposed")
