"""Answers a session's Profile with what Nsight Compute counts on the GPU.

    handlers = {**profiler.handlers(device, journal), **handlers}   # none without a GPU or without ncu

A profile has three phases (engine.session.script.turns.Phases): it prepares beside the timings of other sessions,
counts in the GPU's lane, and reads the report after it. Raw kernels are not profiled: they run confined, where no
profiler reaches into. Where ncu is refused the counters, the session describes the trial by the compiler and the model
of the GPU, as without a profiler, and says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.lower import Source
from engine.build import cute
from engine.build.limited import BuildError
from engine.build.pool import BuildPool
from engine.evaluate.profiling import launchers, ncu
from engine.evaluate.profiling.launchers import Launcher, Launchers, Lost
from engine.evaluate.profiling.words import in_words
from engine.jsonprocess import python_path
from engine.session import events
from engine.session.journal import Journal
from engine.session.script.turns import Turn
from engine.strategies.api import Profile, Reply

SECONDS = 60.0  # to prepare a program, and again to count: ncu replays each kernel some forty times
RAW = "Raw kernels run confined, where Nsight Compute does not reach. What follows is of the compiler."
UNKNOWN = "This session has no trial {}."
Loadable = Callable[[Source, Callable[[], bool]], tuple[Path, Path | None]]


def handlers(device: Any, journal: Journal) -> dict[str, Profiler]:
    """{profile: ...} for a session on a GPU with ncu, else {}."""
    machine = getattr(device, "machine", None)
    tool = ncu.find() if device.kind == "measured" and machine is not None else None
    if tool is None:
        return {}
    ours = launchers.of(tool, environment(machine.pool, machine.visible))
    return {"profile": Profiler(ours, journal, machine.hw.sms, machine.pool.loadable)}


def environment(pool: BuildPool, visible: str = "") -> Mapping[str, str]:
    """The variables of a launcher. `visible`: the GPU, as CUDA_VISIBLE_DEVICES names it ("": the only one)."""
    chosen = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if visible else {}
    return {**cute.environment(pool.cache), "PYTHONPATH": python_path(), **chosen}


def source_of(text: str, backend: str, sms: int) -> Source:
    """What a back end generates from a program's text: the same for a trial, so that its build is in the cache."""
    return generate(check(text).program, sms).sources[backend]


class Profiler:
    """`launchers`: of the session's GPU, which has `sms` SMs; `loadable`: as BuildPool's; `device`: cpu for tests."""

    def __init__(self, launchers: Launchers, journal: Journal, sms: int, loadable: Loadable, device: str = "cuda"):
        self.launchers, self.journal, self.sms, self.loadable = launchers, journal, sms, loadable
        self.device = device

    def phases(self, verb: Profile, turn: Turn) -> Phases:
        return Phases(self, verb, turn)

    def __call__(self, verb: Profile, turn: Turn) -> Reply:
        """All phases, for a caller who has the GPU for itself."""
        phases = self.phases(verb, turn)
        try:
            return phases.prepare() or phases.count() or phases.reply()
        finally:
            phases.close()


class Phases:
    """One profile. Each phase returns None, or the reply with which the profile ends."""

    def __init__(self, profiler: Profiler, verb: Profile, turn: Turn):
        self.profiler, self.verb, self.turn = profiler, verb, turn
        self.launchers = profiler.launchers
        self._launcher: Launcher | None = None
        self._began, self._closed = time.monotonic(), False

    def prepare(self) -> Reply | None:
        """Build and load the program in a launcher, which then waits."""
        proposed = self.profiler.journal.past(events.TrialProposed, self.verb.trial)
        if proposed is None:
            return Reply(refusal="no_profiler", reason=UNKNOWN.format(self.verb.trial))
        if proposed.form == "kernel":
            return Reply(refusal="no_profiler", reason=RAW)
        if self.launchers.refused:
            return Reply(refusal="no_profiler", reason=self.launchers.refused)
        text = self.profiler.journal.blob(proposed.program)
        self._launcher, ahead = self.launchers.take()
        try:
            try:
                self._load(text, proposed.backend)
            except Lost as e:
                if not ahead or e.why != "died":
                    raise
                self._launcher = self.launchers.start()  # the one that waited had just ended
                self._load(text, proposed.backend)
        except Lost as e:
            return self._lost(e, "to prepare")
        except BuildError as e:
            return self._refusal(e.reason)
        if self._closed:
            self._launcher.close()
        self.launchers.ahead()
        return None

    def count(self) -> Reply | None:
        """Run the program. Needs the GPU's lane."""
        try:
            self._launcher.ask({"count": True}, SECONDS, self.turn.cancelled)
        except Lost as e:
            return self._lost(e, "to count")
        return None

    def reply(self) -> Reply:
        """Read what was counted."""
        try:
            text, printed = self._launcher.report(SECONDS, self.turn.cancelled)
        except Lost as e:
            return self._lost(e, "to write its report")
        kernels = ncu.read(text)
        if not kernels:
            return self._refusal("it counted nothing", f"{text}\n{printed}", certain=False)
        seconds = time.monotonic() - self._began
        return Reply(in_words(self.verb.trial, kernels), seconds=seconds, counts=ncu.counts(kernels))

    def close(self) -> None:
        """End the launcher."""
        self._closed = True
        if self._launcher is not None:
            self._launcher.close()

    def _load(self, text: str, backend: str) -> None:
        """Raises Lost, BuildError."""
        until = time.monotonic() + SECONDS

        def stop() -> bool:
            return self.turn.cancelled() or time.monotonic() > until

        path, artifact = self.profiler.loadable(source_of(text, backend, self.profiler.sms), stop)
        file = self._launcher.folder / "program.ucutlass"
        file.write_text(text, encoding="utf-8")
        request = {"program": str(file), "path": str(path), "artifact": artifact and str(artifact)}
        request["device"] = self.profiler.device
        self._launcher.ask(request, max(1.0, until - time.monotonic()), self.turn.cancelled)

    def _lost(self, lost: Lost, what: str) -> Reply:
        reason = f"{lost} {what}" if lost.why == "timeout" else str(lost)
        return self._refusal(reason, lost.log, certain=lost.why != "died")

    def _refusal(self, reason: str, log: str = "", *, certain: bool = True) -> Reply:
        """`certain`: the reason says more than an error that ncu printed, unless that is about its counters."""
        known = ncu.refusal(log, known=certain)
        why = f"Nsight Compute did not run: {known or reason}."
        if ncu.CLOSED in log:
            self.launchers.refuse(why)
        return Reply(refusal="no_profiler", reason=why, seconds=time.monotonic() - self._began)


__all__ = ["Phases", "Profiler", "environment", "handlers", "source_of"]
