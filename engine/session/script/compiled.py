"""torch.compile's times, when a session's search is over: compiled beside the GPU's lane, then timed with it. The first
one may be compiled while the search goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.devices import Device, TrialError
from engine.session import events
from engine.session.journal import Journal
from engine.session.owner import Owner
from engine.session.script.lanes import Lanes
from engine.session.script.steps import Events, Stopped

NOT_TIMED = "not_timed"  # code of the remark about a baseline without a time


@dataclass(frozen=True)
class Compiling:
    """`ways`: which of torch.compile's baselines (engine.evaluate.reference.baseline_cache.NAMES); (): both modes in
    each class of the session. `seconds`: for one of them to be compiled; None: the longest that the device allows."""

    ways: tuple[str, ...] = ()
    seconds: float | None = None


def begin(device: Device, classes: Sequence[str], compiling: Compiling, owner: Owner, journal: Journal) -> None:
    """Let the device compile beside the search that follows, if it can. A session that goes on begins nothing that its
    journal answers."""
    for name in _untimed(device.compile_names(classes, compiling.ways), journal):
        device.compile_ahead(name, compiling.seconds, lambda: owner.paused)  # it takes the first that it can


def times(
    device: Device, classes: Sequence[str], compiling: Compiling, lanes: Lanes, owner: Owner, journal: Journal
) -> Events:
    """Log a Baseline for each, or a remark why it has none. Raises Stopped."""
    yield from journal.emit(events.Progress("Timing torch.compile, which takes minutes", "compiled"))
    for name in _untimed(device.compile_names(classes, compiling.ways), journal):
        try:
            timed = None
            while timed is None:  # again, if the process that compiled it was lost
                yield from lanes.call(lambda n=name: device.compile(n, compiling.seconds), "build", "pytorch")
                timed = yield from lanes.call(lambda n=name: device.compiled(n, classes), device.place, "pytorch")
        except TrialError as e:
            if owner.stopped:
                raise Stopped from None
            yield from journal.emit(events.Noted(NOT_TIMED, f"{name} was not timed: {e.reason}", baseline=name))
        else:
            yield from journal.emit(timed)
    yield from lanes.call(device.end_compiling, doing="pytorch")


def _untimed(names: Sequence[str], journal: Journal) -> list[str]:
    """Those of which the journal has neither a time nor a remark why there is none."""
    answered = {e.baseline for e in journal.of(events.Noted) if e.code == NOT_TIMED}
    answered |= {e.name for e in journal.of(events.Baseline)}
    return [name for name in names if name not in answered]


__all__ = ["NOT_TIMED", "Compiling", "begin", "times"]
