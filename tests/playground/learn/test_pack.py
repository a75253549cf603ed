"""The folder for a hall without a network: what is in it, that the engine's command line makes it, and that it runs a
room in a network namespace without any network."""

import ast
import json
import runpy
import shutil
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from playground.conf import ROOT
from playground.learn import pack
from playground.recordings import FOLDER


def test_the_folder_holds_lessons_recordings_wheels_and_one_command(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.md").write_text("---\n")
    monkeypatch.setenv("UCUTLASS_LESSONS", str(tmp_path / "own"))
    out = tmp_path / "hall"
    shipped = len(list(FOLDER.glob("*.jsonl")))
    assert f"11 lessons, {shipped} recordings" in pack.pack(out)
    assert {p.name for p in out.iterdir()} == {"app", "lessons", "start.py", "README.md", "wheels.txt"}
    for folder in ("playground/lessons", "playground/recordings", "playground/learn"):
        files = {p.relative_to(ROOT) for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix != ".pyc"}
        assert files and all((out / "app" / path).read_bytes() == (ROOT / path).read_bytes() for path in files)
    assert (out / "lessons/mine.md").exists() and not list(out.rglob("*.pyc")) and not list(out.rglob(".git*"))
    assert (out / "wheels.txt").read_text() == (ROOT / "requirements.txt").read_text()
    ast.parse((out / "start.py").read_text())
    with pytest.raises(pack.PackError, match="not empty"):
        pack.pack(out)


def test_a_folder_inside_of_the_app_is_refused():
    with pytest.raises(CommandError, match="inside of the app"):
        call_command("lessons", "pack", out=ROOT / "playground" / "hall")


def test_the_engine_hands_over_to_the_app(tmp_path):
    command = [sys.executable, "-m", "engine", "lessons", "pack", "--out", str(ROOT / "sol/hall")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "inside of the app" in done.stderr


def test_the_teacher_is_told_an_address_that_students_can_open():
    start = runpy.run_path(str(pack.BUNDLE / "start.py"), run_name="start")
    text = start["instructions"](["127.0.0.1", "localhost", "192.168.1.20", "laptop", "127.0.1.1"], "9000")
    assert "Open a room at http://192.168.1.20:9000/w/new" in text
    assert "Students join at http://192.168.1.20:9000/w," in text
    assert "localhost" not in text and "127.0" not in text
    assert "hotspot" in start["instructions"](["127.0.0.1", "localhost", "laptop"], "8000")


ALONE = ["unshare", "--user", "--map-root-user", "--net"]
namespaces = shutil.which("unshare") and not subprocess.run([*ALONE, "true"], capture_output=True).returncode


@pytest.mark.skipif(not namespaces, reason="this machine lets nobody make a network namespace")
def test_one_command_runs_a_room_without_any_network(tmp_path):
    out = tmp_path / "hall"
    pack.pack(out)
    script = [sys.executable, "-m", "tests.playground.learn.hall", str(out)]
    done = subprocess.run([*ALONE, *script], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["interfaces"] == ["lo"] and seen["outside"] == "unreachable"
    assert "This laptop has no address in a network" in seen["printed"] and "start again" in seen["printed"]
    assert seen["pages"] == {"/learn": 200, "/learn/roofline": 200, "/w/new": 200, "/gallery": 200, "wall": 200}
    assert seen["recording"] == 200, "a lesson's recording can be replayed"
    assert seen["right"] == [True, False, False] and seen["test"]["limit"]["both"] == 1
    assert seen["session"]["state"] == "ended" and seen["session"]["trials"] >= 1
