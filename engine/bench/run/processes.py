"""A bench on several GPUs of one machine: a process for each GPU, and one line of problems for all of them.

One Python interpreter cannot keep several lanes busy: on four H200s a bench in one process was 2.2 times as fast as on
one (engine/results, scaling-suite59). A process takes the next problem whenever it can begin a session
(engine.bench.run.gpu_main), on its GPU and on an equal part of the cores; rows and lines come back here. The logs of
sessions that are cut lie beside the results file, so that any process continues them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine import descriptors
from engine.bench.run import runner
from engine.bench.run.crew import Crew
from engine.bench.run.request import Request
from engine.bench.run.results_file import ResultsFile
from engine.cores import side_by_side
from engine.devices.gpus import only

POLL = 0.2  # seconds between two looks whether a silent process has ended
END_SECONDS = 60.0  # for the sessions of a process to end after a signal


class ProcessLost(RuntimeError):
    """The process of a GPU ended before its work did; the message says which, and where its error is."""


def run(
    request: Request, gpus: Sequence[str], out: Path | None, say: Callable[[str], None], at_once: int = 1
) -> ResultsFile:
    """As runner.run, on several GPUs. `gpus`: their names, as CUDA_VISIBLE_DEVICES has them; "" for a predicted device.
    What a process that is lost did not end goes to the others. Raises BadResults, BadSpec, OSError, and ProcessLost if
    some work is left."""
    results = ResultsFile(out, request.settings)
    of_all = {"gpus": len(gpus)} | runner.about_sessions(at_once)
    line = Line(runner.todo(request, results, len(gpus) * at_once), results, of_all, say)
    begins = [
        {"request": _plain(request), "at_once": at_once, "cores": cores, "share": len(gpus), "out": out and str(out)}
        for cores in parts(side_by_side(os.sched_getaffinity(0)), len(gpus))
    ]
    players, crew = [Player(line, gpu, begin) for gpu, begin in zip(gpus, begins, strict=True)], Crew()
    try:
        for player in players:
            crew.start(player.serve, name=f"bench on GPU {player.gpu}")
        crew.wait()
    finally:
        for player in players:
            player.end()
        crew.wait()
        results.write()
    if line.errors:
        raise line.errors[0]
    if line.todo and not line.late:
        raise ProcessLost(f"{line.lost[0] if line.lost else 'a process ended early'}; its error is above")
    if line.late:
        say(runner.stopped(request))
    return results


def parts(cores: Sequence[int], many: int) -> list[list[int]]:
    """The cores of each of several processes: equal blocks, or all of them for each if there are fewer than
    processes."""
    size = len(cores) // many
    return [list(cores[i * size : (i + 1) * size] or cores) for i in range(many)]


def _plain(request: Request) -> dict[str, Any]:
    """A request as JSON values; gpu_main makes it again."""
    plain = {name: getattr(request, name) for name in ("seconds", "search_seconds")}
    return plain | {
        "problems": dict(request.problems), "fields": dict(request.fields), "folder": str(request.folder),
        "compiling": asdict(request.compiling),
    }  # fmt: skip


class Line(runner.Here):
    """The work of the bench (engine.bench.run.runner.Work), for the threads of all processes. `about`: of the whole
    bench; each process tells about its machine; `late`: the time was over; `lost`: processes that ended early, in
    words; `errors`: of this process."""

    def __init__(
        self, todo: list[str], results: ResultsFile, about: dict[str, Any], say: Callable[[str], None]
    ):  # fmt: skip
        super().__init__(todo, results, say)
        self._about = about
        self.late, self.lost = False, []
        self.errors: list[Exception] = []
        self._lock = threading.Lock()

    def describe(self, machine: dict[str, Any]) -> None:
        with self._lock:
            self.results.about |= machine | self._about

    def take(self) -> str | None:
        with self._lock:
            return super().take()

    def put(self, module: str, row: dict) -> None:
        with self._lock:
            super().put(module, row)

    def say(self, line: str) -> None:
        with self._lock:
            super().say(line)

    def end_with(self, error: Exception) -> None:
        """Begin nothing more."""
        with self._lock:
            self.todo.clear()
            self.errors.append(error)

    def give_back(self, modules: set[str], why: str) -> None:
        """Problems of a process that was lost, first in the line again."""
        with self._lock:
            self.todo[:0] = sorted(modules)
            self.lost.append(why)


class Player:
    """One GPU's process. `begin`: its first message."""

    def __init__(self, line: Line, gpu: str, begin: dict[str, Any]):
        self.line, self.gpu, self._begin = line, gpu, begin
        self._open: set[str] = set()
        self._ended = False  # by the bench itself, which is interrupted
        self._process: subprocess.Popen | None = None

    def serve(self) -> None:
        """Start it, and answer it until it has ended. In a thread of its own."""
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.bench.run.gpu_main"], env=os.environ | only(self.gpu),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        if self._ended:  # before it had a process to end
            process.send_signal(signal.SIGINT)
        try:
            self._send(self._begin)
            for text in _lines(process):
                self._on(json.loads(text))
        except Exception as e:  # of the results file, or of who reads the lines: the bench ends with it
            self.line.end_with(e)
            process.kill()
        status = process.wait()
        if status and not self._ended and not self.line.late and not self.line.errors:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            why = f"the process of {f'GPU {self.gpu}' if self.gpu else 'a predicted GPU'} ended with {how}"
            self.line.give_back(self._open, why)
            self.line.say(f"{why}; what it did not end goes to the others")

    def _on(self, message: dict[str, Any]) -> None:
        """One message of the process: see gpu_main."""
        match message["of"]:
            case "take":
                module = self.line.take()
                if module is not None:
                    self._open.add(module)
                self._send({"module": module})
            case "row":
                self.line.put(message["module"], message["row"])
                self._open.discard(message["module"])
            case "say":
                self.line.say(message["line"])
            case "about":
                self.line.describe(message["about"])
            case "late":
                self.line.late = True

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its status says how
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """End the process, which closes its sessions' logs before."""
        self._ended = True
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _lines(process: subprocess.Popen) -> Iterator[bytes]:
    """What a process writes, by lines, until it has ended. The end of its output may come much later, because forks of
    it have that open, too."""
    out, buffer = process.stdout.fileno(), b""
    while True:
        if not descriptors.readable(out, seconds=POLL):
            if process.poll() is None or descriptors.readable(out, seconds=0):
                continue
            return
        data = os.read(out, 1 << 20)
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")  # the last one is not whole yet
        yield from lines
