"""A real server for the tests: daphne in its own process, on its own database, beside engines that tests may kill."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from playground.access import limits

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def plain_static(settings):
    """Templates name static files; without `collectstatic` there is no manifest to look them up in."""
    settings.STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch):
    """The requests and the wrong links of one test do not count in the next."""
    rooms = ("rooms", "joins", "seats", "seat_sessions")
    for name in ("sessions", "checks", "assists", "commands", "keys", "tokens", "agents", "writings", *rooms):
        limit = getattr(limits, name)
        monkeypatch.setattr(limits, name, limits.Limit(limit.most, limit.seconds))
    monkeypatch.setattr(limits, "guesses", limits.Guesses(limits.guesses.most, limits.guesses.seconds))


@functools.cache
def migrated() -> Path:
    """A database with every migration, made once in this process: each house copies it, for `migrate` takes 2 s of a
    core."""
    folder = Path(tempfile.mkdtemp(prefix="ucutlass-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environ = plain_environ() | {"DJANGO_SETTINGS_MODULE": "ucutlass_web.settings"}
    environ |= {"UCUTLASS_VAR": str(folder), "UCUTLASS_DEBUG": "1"}
    manage(environ, "migrate", "--verbosity", "0", "--skip-checks")
    return folder / "playground.sqlite3"


def manage(environ: dict[str, str], *args: str) -> str:
    """What a management command prints."""
    command = [sys.executable, "manage.py", *args]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plain_environ() -> dict[str, str]:
    """This process's environment without the app's settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith("UCUTLASS_") and k != "DATABASE_URL"}


class House:
    """A folder with a database, a daphne on a free port, and any number of engine processes. Engines compile nothing
    unless `environ` has UCUTLASS_COMPILERS=""."""

    def __init__(self, var: Path, **environ: str):
        self.var = var
        self.environ = {
            **plain_environ(),
            "DJANGO_SETTINGS_MODULE": "ucutlass_web.settings",
            "UCUTLASS_VAR": str(var),
            "UCUTLASS_DEBUG": "1",
            "UCUTLASS_LEASE_SECONDS": "1",
            "UCUTLASS_COMPILERS": "none",  # importing CuTe DSL takes each engine 9 s
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **environ,
        }
        self.processes: list[subprocess.Popen] = []
        self.started: list[dict[str, str]] = []  # every session that was submitted
        if "DATABASE_URL" in environ:
            self.manage("migrate", "--verbosity", "0")
        else:
            shutil.copy(migrated(), var)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.daphne: subprocess.Popen | None = None

    def manage(self, *args: str) -> str:
        return manage(self.environ, *args)

    def start(self, *args: str, name: str) -> subprocess.Popen:
        log = (self.var / f"{name}.log").open("ab")
        process = subprocess.Popen([sys.executable, *args], cwd=ROOT, env=self.environ, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def web(self, verbosity: str = "0") -> None:
        """Start daphne; from verbosity 1 on it writes its access log too."""
        arguments = ("-u", "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "-v", verbosity)
        self.daphne = self.start(*arguments, "ucutlass_web.asgi:application", name="daphne")
        deadline = time.monotonic() + 90
        while True:
            try:
                return self.get("/healthz")
            except OSError:
                assert time.monotonic() < deadline, (self.var / "daphne.log").read_text()
                time.sleep(0.1)

    def engine(self) -> subprocess.Popen:
        return self.start("-m", "tests.playground.script", name=f"engine{len(self.processes)}")

    def freeze(self, engine: subprocess.Popen) -> None:
        """SIGSTOP an engine, but not in one of its writes: it would keep SQLite's lock, and nobody else could write."""
        while True:
            engine.send_signal(signal.SIGSTOP)
            while not self._stands(engine.pid):  # on a busy machine it may still be in a call, and take the lock
                time.sleep(0.01)
            with contextlib.closing(sqlite3.connect(self.var / "playground.sqlite3", timeout=0.5)) as database:
                try:
                    database.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError:
                    engine.send_signal(signal.SIGCONT)
            time.sleep(0.01)

    @staticmethod
    def _stands(pid: int) -> bool:
        """Whether all threads of a process are stopped, or have ended."""
        try:
            tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
        except OSError:  # a thread ended
            return False
        return {task.rpartition(")")[2].split()[0] for task in tasks} <= set("TtZX")

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            return json.load(response)

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            return response.read().decode()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as e:
            return json.load(e)

    def submit(self, title: str = "a test", **fields: Any) -> dict[str, str]:
        session = self.post("/api/sessions", {"title": title, "source": "class Model: ...", **fields})
        self.started.append(session)
        return session

    def command(self, session: dict[str, str], kind: str) -> None:
        """The owner's command to a submitted session."""
        headers = {"X-Control-Token": session["control_token"]}
        self.post(f"/api/sessions/{session['id']}/commands", {"kind": kind}, **headers)

    def wait(self, session_id: str, done, seconds: float = 90) -> dict[str, Any]:
        """GET the session until `done(session)`."""
        deadline = time.monotonic() + seconds
        while not done(session := self.get(f"/api/sessions/{session_id}")):
            assert time.monotonic() < deadline, f"{self.lines()}\n{json.dumps(session)}"
            time.sleep(0.05)
        return session

    def lines(self) -> str:
        """The last lines of the logs of its processes."""
        logs = sorted(self.var.glob("*.log"))
        return "\n".join(f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines()[-8:])

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(60)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """One server for the tests of a file."""
    built = House(tmp_path_factory.mktemp("house"))
    built.web()
    yield built
    built.close()
