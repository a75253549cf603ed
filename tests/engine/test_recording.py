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


def test_each_text_comes_before_the_event_that_names_it(recorded):
    lines = [json.loads(line) for line in recorded[0].read_text().splitlines()]
    rows, texts = [], set()
    for line in lines:
        if "blobs" in line:
            texts |= set(line["blobs"])
        else:
            assert set(line) == {"seq", "kind", "t", "data"}
            rows.append(line["seq"])
            assert not [v for v in line["data"].values() if isinstance(v, str) and v in recorded[2] and v not in texts]
    assert rows == list(range(1, len(rows) + 1))


def test_a_recording_that_is_killed_at_any_byte_of_its_last_lines_is_valid(recorded):
    path, rows, _ = recorded
    text = path.read_bytes()
    first = text.index(b"\n", text.index(b'"session.started"')) + 1
    for size in (first, len(text) // 2, *range(len(text) - 400, len(text))):
        path.write_bytes(text[:size])
        cut = recording.read(path)
        assert [r.event for r in cut.rows] == [e for _, _, e in rows[: len(cut.rows)]] and cut.rows


def test_a_file_of_an_older_engine_has_its_blobs_in_the_last_line(recorded):
    path, rows, blobs = recorded
    lines = [line for line in path.read_text().splitlines() if not line.startswith('{"blobs"')]
    path.write_text("\n".join([*lines, json.dumps({"blobs": blobs})]) + "\n")
    assert recording.read(path).blobs == blobs and len(recording.read(path).rows) == len(rows)


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda lines: [line for line in lines if not line.startswith('{"blobs"')], "cut short"),
        (lambda lines: [lines[0], *lines[2:]], "line 2 has seq 2"),
        (lambda lines: [line for line in lines if not line.startswith('{"seq": 2,')], "has seq 3 where 2 comes next"),
        (lambda lines: [*lines[:2], "{", *lines[3:]], "line 3"),
        (lambda lines: [line.replace("session.started", "session.dreamt") for line in lines], "unknown event kind"),
        (lambda lines: [line.replace("program scale", "program other") for line in lines], "SHA-256"),
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
