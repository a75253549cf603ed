"""Recorded sessions are data in the repository and ordinary sessions on the page."""

import argparse
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from engine.__main__ import _read
from engine.llm.rehearse import MODEL
from engine.record.command import load
from engine.session import events, recording, spec_arguments
from playground import conf, recordings
from playground.gallery.cards import PREDICTED
from playground.live import log
from playground.models import Session
from tests.playground import script

pytestmark = pytest.mark.django_db


def record(path, title="recorded", trials=2):
    blobs, rows = {}, []
    for seq, (event, texts) in enumerate(script.session(title=title, trials=trials), 1):
        blobs |= texts
        rows.append((seq, 1_796_000_000.0 + seq, event))
    recording.write(path, rows, blobs)
    return path


def test_a_recording_replays_as_an_ended_session(tmp_path, client):
    record(tmp_path / "one.jsonl")
    assert recordings.load_all(tmp_path)[1] == []
    session = Session.objects.get()
    assert (session.state, session.recorded, session.last_seq) == ("ended", True, 9)
    assert session.provenance["file"] == "one.jsonl" and session.provenance["date"] == "2026-11-30"
    assert session.provenance["kind"] == "predicted" and session.summary["best"]["trial"] == 2
    assert [e for _, e in log.history(session.id)] == [e for e, _ in script.session("class Model: ...", 2, "recorded")]
    reply = client.get(f"/api/sessions/{session.id}/events").json()
    assert reply["ended"] and reply["events"][0]["t"] == 1_796_000_001.0
    assert client.get(f"/api/sessions/{session.id}/blobs/{events.blob_name('program p1')}").content == b"program p1"


def test_loading_again_changes_nothing(tmp_path):
    record(tmp_path / "one.jsonl")
    first, _ = recordings.load_all(tmp_path)
    again, _ = recordings.load_all(tmp_path)
    assert len(first) == 1 and again == [] and Session.objects.get().id == first[0]


def test_a_changed_file_replaces_its_session_and_a_removed_one_takes_it_along(tmp_path):
    path = record(tmp_path / "one.jsonl")
    recordings.load_all(tmp_path)
    old = Session.objects.get().id
    record(path, trials=3)
    recordings.load_all(tmp_path)
    assert Session.objects.get().id != old and Session.objects.get().summary["trials"] == 3
    path.unlink()
    recordings.load_all(tmp_path)
    assert not Session.objects.exists()


def test_a_live_session_is_never_touched(tmp_path):
    Session.objects.create(title="live", spec={})
    recordings.load_all(tmp_path)
    assert Session.objects.get().title == "live"


@pytest.mark.parametrize("spoil", ["cut", "garbage", "gap", "no end"])
def test_a_broken_file_is_named_and_the_others_load(tmp_path, spoil):
    record(tmp_path / "good.jsonl")
    lines = record(tmp_path / "bad.jsonl").read_text().splitlines()
    match spoil:
        case "cut":
            lines = lines[: len(lines) // 2]
        case "garbage":
            lines[3] = "{"
        case "gap":
            lines = [line for line in lines if not line.startswith('{"seq": 4,')]
        case "no end":
            del lines[-1]
    (tmp_path / "bad.jsonl").write_text("\n".join(lines) + "\n")
    loaded, bad = recordings.load_all(tmp_path)
    assert len(loaded) == 1 and len(bad) == 1 and bad[0].startswith("bad.jsonl: ")
    with pytest.raises(CommandError, match=r"bad\.jsonl"):
        call_command("load_recordings", str(tmp_path), verbosity=0)


def test_nobody_controls_a_recording(tmp_path, client):
    record(tmp_path / "one.jsonl")
    recordings.load_all(tmp_path)
    path = f"/api/sessions/{Session.objects.get().id}/commands"
    assert client.post(path, {"kind": "stop"}, content_type="application/json").status_code == 403


def test_the_gallery_lists_them(tmp_path, client):
    record(tmp_path / "one.jsonl", title="a recorded layer")
    recordings.load_all(tmp_path)
    html = client.get("/gallery").content.decode()
    assert "a recorded layer" in html and "predicted" in html


def test_the_repositorys_own_recordings_load_and_the_gallery_says_what_each_is(client):
    loaded, bad = recordings.load_all()
    assert bad == [] and len(loaded) == len(list(recordings.FOLDER.glob("*.jsonl"))) >= 5
    cards = {card.title: card for card in client.get("/gallery").context["cards"]}
    assert cards["linear_scale_leaky"].about.endswith("(suite59 L2/12)")
    assert cards["mlp_gelu"].about.startswith("A transformer's feed-forward block")
    for card in cards.values():
        source = Session.objects.get(id=card.id).provenance
        if card.title.startswith("agent "):
            assert (source["kind"], source["led_by"], source["command"]) == ("predicted", "a coding agent over MCP", "")
            continue
        assert re.match("python -m (engine optimize|engine reproduce|pytest tests/gpu/)", source["command"])
        if source["led_by"]:
            assert source["led_by"] == recordings.REHEARSAL and card.title.endswith(", rehearsed")
            assert "rules wrote each reply" in dict(card.facts)["Led by"]
        assert card.rehearsed == (bool(source["led_by"]) and "engine optimize" in source["command"])
        assert bool(source["driver"]) == (source["kind"] == "measured")
        assert source["kind"] == "measured" or dict(card.facts)["Times"] == PREDICTED


def test_the_rehearsal_s_name_is_that_of_its_replies():
    assert recordings.REHEARSED == MODEL


def test_a_recording_in_the_repository_names_no_place_of_the_machine_that_made_it():
    place = re.compile(r"(?<![\w.)\]*/:])/(?:work|tmp|root|home|usr|opt|var|mnt|workspace|Users|proc)\b[\w./-]*")
    assert place.search("nvcc: /tmp/x.cu: 3") and not place.search("https://a.b/tmp/x, M/tmp, 3/4")
    for path in recordings.FOLDER.glob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        assert not place.findall(text), path.name
        assert not re.search(r"Bearer|localhost|\b(?:127|10|192\.168)\.\d+\.\d+\.?\d*\b", text), path.name
        assert path.stat().st_size < 1 << 20, path.name


def test_the_command_of_a_recording_makes_such_a_session():
    session = Session.objects.get(id=recordings.load(recordings.FOLDER / "rehearsed_two_stage.jsonl"))
    command = session.provenance["command"]
    assert command.startswith("python -m engine optimize low_rank_linear --device cuda --strategy two_stage --option ")
    assert "--option rounds=1 --option evaluations=10 --class f16 --trials 12" in command
    session.provenance = {"file": "rehearsed_two_stage.jsonl", "command": "python -m engine optimize a.py"}
    session.save()  # as an older version loaded it
    assert recordings.load(recordings.FOLDER / "rehearsed_two_stage.jsonl") == session.id
    assert Session.objects.get(id=session.id).provenance["command"] == command


def test_each_recorded_command_has_what_it_runs_on(monkeypatch):
    monkeypatch.chdir(conf.ROOT)
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    spec_arguments.add(parser)
    for path in sorted(recordings.FOLDER.glob("*.jsonl")):
        source = Session.objects.get(id=recordings.load(path)).provenance
        if source["led_by"] == "a coding agent over MCP":
            assert source["command"] == ""
        elif "optimize" in source["command"]:
            parsed = parser.parse_args(shlex.split(source["command"])[4:])
            assert parsed.device == "cuda" and parsed.trials, source["command"]
            source_text = Session.objects.get(provenance__file=path.name).spec["source"]
            assert _read(parsed.file)[0].strip() == source_text.strip(), source["command"]
        elif "reproduce" in source["command"]:
            assert source["command"] == f"python -m engine reproduce playground/recordings/{path.name} --device cuda"
            assert load(f"playground/recordings/{path.name}")[0]["events"]
        else:
            assert Path(source["command"].removeprefix("python -m pytest ")).exists(), source["command"]
