"""The process of one GPU in a bench on several: sessions on problems that the bench's process deals.

It ends with the process that started it. Messages are JSON lines. The first to this process has the request and its
part of the machine; then each {"of": "take"} from here is answered by {"module": name or null}. Without an answer come
{"of": "about"}, "say", "row" and "late".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from engine.bench.run import runner
from engine.bench.run.request import Request
from engine.devices import registry
from engine.session.script.compiled import Compiling


class Remote:
    """The work of the whole bench, in another process. See engine.bench.run.runner.Work."""

    def __init__(self, path: Path | None, out: IO[bytes], answers: IO[bytes]):
        self.path, self._out, self._answers = path, out, answers

    def send(self, of: str, **more: Any) -> None:
        self._out.write(json.dumps({"of": of, **more}).encode() + b"\n")
        self._out.flush()

    def take(self) -> str | None:
        self.send("take")
        answer = self._answers.readline()
        return json.loads(answer)["module"] if answer else None

    def put(self, module: str, row: dict) -> None:
        self.send("row", module=module, row=row)

    def say(self, line: str) -> None:
        self.send("say", line=line)


def end_with(parent: int) -> None:
    """End this process as an interrupt does, once its parent is no more."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    answers, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no message
    begin = json.loads(answers.readline())
    os.sched_setaffinity(0, begin["cores"])
    plain = begin["request"]
    plain |= {"folder": Path(plain["folder"]), "compiling": Compiling(**plain["compiling"])}
    request, at_once = Request(**plain), begin["at_once"]
    runner.trace_early(at_once)
    evaluators = registry.several(request.settings["device"], at_once, local_user=True, share=begin["share"])
    work = Remote(begin["out"] and Path(begin["out"]), out, answers)
    work.send("about", about=runner.about(evaluators[0]))
    if runner.play(request, evaluators, work, at_once):
        work.send("late")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the bench runs in the background of a shell
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
