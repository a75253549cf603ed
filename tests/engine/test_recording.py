"""A recording is the log and its blobs in one file, read back whole or refused by line."""

import json

import pytest

from engine.session import events, recording
from engine.session.runner import run
from tests.engine.counting import CountingDevice, spec


@pytest.fixture
def recorded(tmp_path):
    emitted = list(run(spec(trials=2), device=CountingDevice()))
    rows = [(i + 1, e.t, e.event) for i, e in enumerate(emitted)]
    blobs = {k: v for e in emitted for k, v in e.blobs.items()}
    path = tmp_path / "one.jsonl"
    recording.write(path, rows, blobs | {"0" * 64: "named by no event"})
    return path, rows, blobs


def test_what_is_written_is_read_back(recorded):
    path, rows, blobs = recorded
    copy = recording.read(path)
    assert [r.event for r in copy.rows] == [e for _, _, e in rows]
    assert copy.blobs == blobs
    assert copy.title == "t"


def test_the_texts_of_screened_candidates_are_kept(tmp_path):
    text = "program one(x: f32[4]) -> f32[4] { ... }"
    screened = events.Screened(1, {events.blob_name(text): 0.5}, 0.1)
    path = tmp_path / "screened.jsonl"
    started = events.SessionStarted("t", "", "module", {}, "planner", [], {})
    ended = events.SessionEnded("done", "", {}, 0, 0.1)
    rows = [(i, 1.0, e) for i, e in enumerate((started, screened, ended), 1)]
    recording.write(path, rows, {events.blob_name(text): text})
    assert recording.read(path).blobs == {events.blob_name(text): text}


def test_every_line_is_an_object_of_its_own_and_the_blobs_come_last(recorded):
    *rows, last = [json.loads(line) for line in recorded[0].read_text().splitlines()]
    assert [r["seq"] for r in rows] == list(range(1, len(rows) + 1))
    assert set(rows[0]) == {"seq", "kind", "t", "data"} and set(last) == {"blobs"}


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: lines[1:], "line 1 has seq 2"),
        (lambda lines: [lines[0], *lines[2:]], "line 2 has seq 3"),
        (lambda lines: [lines[0], "{", *lines[2:]], "line 2"),
        (lambda lines: [lines[0].replace("session.started", "session.dreamt"), *lines[1:]], "unknown event kind"),
        (lambda lines: [*lines[:-1], lines[-1].replace("program scale", "program other")], "SHA-256"),
    ],
    ids=["cut", "beheaded", "gap", "no json", "kind", "blob"],
)
def test_a_spoilt_file_is_refused(recorded, spoil, words):
    path = recorded[0]
    lines = spoil(path.read_text().splitlines())
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(recording.RecordingError, match=words):
        recording.read(path)


def test_reading_a_recording_loads_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, engine.session.recording, engine.session.spec; "
    code += "print(sorted(m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'dsl', 'sol', 'django')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_an_unknown_field_in_an_event_is_another_version():
    with pytest.raises(ValueError, match="unknown fields"):
        events.decode("progress", {"text": "x", "colour": 1})
