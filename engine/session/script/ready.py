"""Get the device ready for a problem, and begin meanwhile what needs no device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from engine.devices import Device, Problem, TrialError
from engine.executors import loading
from engine.session import events, trial
from engine.session.script.lanes import Job, Lanes
from engine.session.script.steps import Events, Steps, Wait, Work
from engine.strategies.api import Candidate, Strategy


def admitted(device: Device, problem: Problem, lanes: Lanes, emit: Callable[..., Events]) -> Events:
    """Wait for the problem's part of the device's memory."""
    wish = device.admit(problem)
    if not wish:
        return
    began, what = time.monotonic(), "this machine" if device.place == "core" else "the GPU"
    yield from emit(events.Progress(f"Waiting for {what}'s memory: {wish}", "wait"))

    def steps() -> Steps[None]:
        yield Wait(lambda: None if device.admit(problem) else True)

    yield from lanes.run([Job(steps(), beside=True)])
    waited = time.monotonic() - began
    lanes.spent.waited("memory", waited)
    yield from emit(events.Progress(f"Waited {waited:.1f} s for {what}'s memory; working again", "place"))


def opened(device: Device, problem: Problem, stopped: Callable[[], bool]) -> Steps[None]:
    """Open the device, after what needs no lane of it."""
    if device.loads_apart:
        yield Work(lambda: device.load(problem, stopped), loading(device.place), "prepare")
    yield Work(lambda: device.open(problem, stopped), device.place, "prepare")


def planned(strategy: Strategy, context: trial.Context) -> Steps[Sequence[Candidate]]:
    """The strategy's first candidates. The first one's build begins at once, so that its trial waits less for it. () on
    a device that builds nothing ahead."""
    if not context.device.builds_ahead:
        return ()

    def work() -> Sequence[Candidate]:
        ahead = strategy.ahead(context.problem)
        for first in ahead[:1]:
            _begin_build(first, context)
        return ahead

    return (yield Work(work, "think", "think"))


def _begin_build(first: Candidate, context: trial.Context) -> None:
    """Nothing that goes wrong here matters, because the trial reports it."""
    if first.form == "program":
        with contextlib.suppress(TrialError):
            context.device.build_ahead(trial.candidate(1, first, (), context).sources[first.backend])
