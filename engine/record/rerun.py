"""Run the candidates of a record again: the same programs, fresh inputs, the same baselines, the same evaluator.

A session of its own tries the recorded programs in place of a search (engine.strategies.again), so it makes every check
that a user's session makes. What comes out is compared with the record trial by trial (engine.record.comparison).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.devices import Device
from engine.record.comparison import Outcome, outcomes_of, recorded_of, spec_of
from engine.session import events
from engine.session.runner import run


def rerun(
    record: Mapping[str, Any], device: Device | str, trials: list[int], show: Callable[[Any], None] = lambda event: None
) -> list[Outcome]:
    """Run trials of a record on a device, or the one of this name. `show(event)` is called for each event. Raises
    BadRecord."""
    spec = spec_of(record, trials, device if isinstance(device, str) else "auto")
    rows: list[dict[str, Any]] = []
    for emitted in run(spec, device=device, local_user=True, teaches=False):
        rows.append({"kind": emitted.event.KIND, "data": events.encode(emitted.event)})
        show(emitted.event)
    return outcomes_of({n: recorded_of(record, n) for n in trials}, rows)
