"""Answers a session's Profile with what Nsight Compute counts on the GPU.

    handlers = {**profiler.handlers(device, journal), **handlers}   # none without a GPU or without ncu

Raw kernels are not profiled: they run confined, where no profiler reaches into. Where ncu is refused the counters, the
session describes the trial by the compiler and the model of the GPU, as without a profiler, and says why.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from engine.build import cute
from engine.build.cache import Cache
from engine.build.limited import BuildError, run
from engine.build.pool import build_cpp
from engine.evaluate.profiling import ncu
from engine.evaluate.profiling.words import in_words
from engine.session import events
from engine.session.journal import Journal
from engine.session.script.turns import Turn
from engine.strategies.api import Profile, Reply

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 180.0  # of one profile: ncu replays each kernel some ten times
MEMORY = 16 << 30  # resident bytes
RAW = "Raw kernels run confined, where Nsight Compute does not reach. What follows is of the compiler."


def handlers(device: Any, journal: Journal) -> dict[str, Callable[[Profile, Turn], Reply]]:
    """{profile: ...} for a session on a GPU with ncu, else {}."""
    machine = getattr(device, "machine", None)
    tool = ncu.find() if device.kind == "measured" and machine is not None else None
    return {"profile": Profiler(tool, journal, machine.visible, machine.hw.sms)} if tool is not None else {}


class Profiler:
    """`tool`: ncu; `visible`: the session's GPU, as CUDA_VISIBLE_DEVICES names it ("": the only one); `sms` of it."""

    def __init__(self, tool: Path, journal: Journal, visible: str, sms: int, cache: Cache | None = None):
        self.tool, self.journal, self.visible, self.sms = tool, journal, visible, sms
        self.cache = cache or Cache()
        self.refused = ""  # why the counters are closed here, so that ncu is not tried again

    def __call__(self, verb: Profile, turn: Turn) -> Reply:
        began = time.monotonic()
        proposed = self.journal.past(events.TrialProposed, verb.trial)
        if proposed is None or proposed.form == "kernel":
            return Reply(refusal="no_profiler", reason=RAW)
        if self.refused:
            return Reply(refusal="no_profiler", reason=self.refused)
        with tempfile.TemporaryDirectory(prefix="ucutlass-profile-") as folder:
            text, why = self._profiled(self.journal.blob(proposed.program), proposed.backend, Path(folder), turn)
        if not text:
            return Reply(refusal="no_profiler", reason=why, seconds=time.monotonic() - began)
        return Reply(in_words(verb.trial, ncu.read(text)), seconds=time.monotonic() - began)

    def _profiled(self, program: str, backend: str, folder: Path, turn: Turn) -> tuple[str, str]:
        """(ncu's report, "") or ("", why there is none)."""
        (folder / "program.ucutlass").write_text(program, encoding="utf-8")
        arguments = [str(folder / "program.ucutlass"), backend]
        if backend == "cpp":
            try:
                source = generate(check(program).program, self.sms).sources["cpp"]
                arguments.append(str(build_cpp(source, self.cache, turn.cancelled).path))
            except BuildError as e:
                return "", f"Nsight Compute did not run: {e.reason}."
        report = folder / "report.csv"
        module = [sys.executable, "-m", "engine.evaluate.profiling.launch_main", *arguments]
        ended = run(
            ncu.command(self.tool, report, module), cwd=ROOT, seconds=SECONDS, memory=MEMORY, env=self._environment(),
            cancelled=turn.cancelled,
        )  # fmt: skip
        text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
        if ncu.read(text):
            return text, ""
        log = f"{text}\n{ended.log}"
        known = ncu.refusal(log) or f"it ended {_end(ended.why, ended.code)} and counted nothing"
        why = f"Nsight Compute did not run: {known}."
        if ncu.CLOSED in log:
            self.refused = why
        return "", why

    def _environment(self) -> dict[str, str]:
        chosen = {"CUDA_VISIBLE_DEVICES": self.visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if self.visible else {}
        return {**os.environ, **cute.environment(self.cache), **chosen}


def _end(why: str | None, code: int) -> str:
    words = {"timeout": f"after {SECONDS:.0f} s", "memory": f"over {MEMORY >> 30} GiB", "cancelled": "on request"}
    return words.get(why, f"with status {code}")


__all__ = ["Profiler", "handlers"]
