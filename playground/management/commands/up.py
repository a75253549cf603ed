"""`make run`: prepare the database, the static files and the recordings, then run daphne and the engine together."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from argparse import ArgumentTypeError
from collections.abc import Callable

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from engine.session.spec import device_error
from playground import conf
from playground.access import private
from playground.engines import CANNOT
from playground.learn import shelf

RESTART_AFTER = (1, 2, 5, 10)  # seconds until a crashed engine is restarted, growing
HEALTHY = 60.0  # seconds of life after which a crash counts as the first again
LEAVE = 15  # seconds for a process to end by itself


class Pauses:
    """The pauses before a process is restarted: longer after each crash, unless it ran well before. `at`: the time of
    the next start; 0 while it runs."""

    def __init__(self) -> None:
        self.falls, self.since, self.at = 0, 0.0, 0.0

    def started(self, now: float) -> None:
        self.since, self.at = now, 0.0

    def fell(self, now: float) -> int:
        """Seconds to wait; `now` in seconds, as of `started`."""
        self.falls = 0 if now - self.since >= HEALTHY else self.falls
        pause = RESTART_AFTER[min(self.falls, len(RESTART_AFTER) - 1)]
        self.falls += 1
        return pause


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ArgumentTypeError(f"{text!r} is not a port; write a number from 1 to 65535, e.g. --port 8000")
    return int(text)


def _device(text: str) -> str:
    if text != "auto" and (wrong := device_error(text)):
        raise ArgumentTypeError(wrong)
    return text


class Command(BaseCommand):
    help = "Start the page and its engine together; Ctrl-C ends both."

    def add_arguments(self, parser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=_port, default=8000)
        parser.add_argument(
            "--device", type=_device, default=conf.get("UCUTLASS_DEVICE"), help="auto, cuda, or modelled:h200"
        )
        parser.add_argument("--no-engine", action="store_true", help="the page alone")

    def handle(self, *, host: str, port: int, device: str, no_engine: bool, **options) -> None:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))  # nothing runs yet
        self._free(host, port)
        if host not in ("127.0.0.1", "localhost", "::1") and "UCUTLASS_HOSTS" not in os.environ:
            self.stderr.write(
                "Others can reach this only by a name in UCUTLASS_HOSTS, for example UCUTLASS_HOSTS=my.host"
            )
        call_command("migrate", verbosity=0)
        if not settings.DEBUG:
            self._collect()
        private.tree(settings.VAR)
        try:
            call_command("load_recordings", verbosity=0)
        except CommandError as e:
            self.stderr.write(str(e))  # a bad recording must not prevent the start
        self._name_mistakes()
        commands = {
            # -v 0: no access log in the terminal
            "web": ["-m", "daphne", "-b", host, "-p", str(port), "-v", "0", "ucutlass_web.asgi:application"]
        }
        if not no_engine:
            commands["engine"] = ["manage.py", "engine", "--device", device]
        raise SystemExit(self._supervise(commands, f"http://{'localhost' if host == '127.0.0.1' else host}:{port}/"))

    def _name_mistakes(self) -> None:
        """Name the mistakes of the lessons in UCUTLASS_LESSONS, which /learn therefore lacks."""
        if conf.get("UCUTLASS_LESSONS"):
            for line in shelf.mistaken_lines():
                self.stderr.write(line)

    @staticmethod
    def _free(host: str, port: int) -> None:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
            except OSError as e:
                if isinstance(e, socket.gaierror) or e.errno == errno.EADDRNOTAVAIL:
                    fix = "--host 127.0.0.1, or --host 0.0.0.0 for every address of this machine"
                else:  # only root may listen below 1024
                    fix = f"--port {port + 1 if e.errno == errno.EADDRINUSE and port < 65535 else 8000}"
                raise CommandError(f"{host}:{port} cannot be used ({e.strerror}). Try: {fix}") from None

    def _collect(self) -> None:
        """Collect, hash and compress the static files, unless nothing changed since the last time."""
        listing = sorted(
            f"{name} {stat.st_size} {stat.st_mtime_ns}"
            for finder in get_finders()
            for name, storage in finder.list(list(apps.get_app_config("staticfiles").ignore_patterns))
            for stat in [os.stat(storage.path(name))]
        )
        stamp, want = settings.STATIC_ROOT / ".collected", hashlib.sha256("\n".join(listing).encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != want:
            call_command("collectstatic", interactive=False, verbosity=0, clear=True)
            stamp.write_text(want)

    def _supervise(self, commands: dict[str, list[str]], address: str) -> int:
        """Run until a signal. A crashed process is restarted, but not a web process that never answered."""
        leaving: list[int] = []
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda number, frame: leaving.append(number))
        running = {name: self._start(command) for name, command in commands.items()}
        pauses, announced = {name: Pauses() for name in commands}, False
        for each in pauses.values():
            each.started(time.monotonic())
        try:
            while not leaving:
                time.sleep(0.1)
                if not announced and (announced := self._answers(address)):
                    self.stdout.write(f"\n  μCUTLASS playground   {address}\n  Ctrl-C ends it.\n")
                    self.stdout.flush()
                for name, process in running.items():
                    if process.poll() is None:
                        continue
                    if name == "web" and not announced:
                        self.stderr.write(f"The web process ended by itself (exit {process.returncode}).")
                        return 1
                    if name == "engine" and process.returncode == CANNOT:
                        self.stderr.write("The engine cannot run, for the reason above; a restart would not help.")
                        return CANNOT
                    if not pauses[name].at:
                        pause = pauses[name].fell(time.monotonic())
                        what = "The engine" if name == "engine" else "The web process"
                        self.stderr.write(f"{what} ended (exit {process.returncode}); starting again in {pause} s.")
                        pauses[name].at = time.monotonic() + pause
                    elif time.monotonic() >= pauses[name].at:
                        running[name] = self._start(commands[name])
                        pauses[name].started(time.monotonic())
            return 0
        finally:
            self._end(list(running.values()))

    @staticmethod
    def _start(command: list[str]) -> subprocess.Popen:
        """Start a process of ours. Only the engine gets the key of the operator's models."""
        environ = {n: v for n, v in os.environ.items() if n != "OPENAI_API_KEY" or "engine" in command}
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=conf.ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches only us, and we end them in order
            preexec_fn=_die_with(os.getpid()),
        )

    @staticmethod
    def _answers(address: str) -> bool:
        try:
            with urllib.request.urlopen(address + "healthz", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    @staticmethod
    def _end(processes: list[subprocess.Popen]) -> None:
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + LEAVE
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _die_with(parent: int) -> Callable[[], None] | None:
    """On Linux: send the child SIGTERM if we are killed before we can end it."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return ask
