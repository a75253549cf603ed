"""The requests of a candidate's process while it is timed from outside (engine.evaluate.timing.outside.runner)."""

from __future__ import annotations

from typing import Any

from engine.evaluate import shared_memory
from engine.evaluate.timing.outside.plan import PAGE, Page, Plan
from engine.evaluate.timing.outside.runner import Runner


def runner(door: int, plan: dict, device: str) -> Runner:
    """The runner on the block and the page whose descriptors lie in the door. Raises NotShared."""
    where = Plan.from_json(plan)
    with shared_memory.door(door) as way:
        block = shared_memory.adopt(shared_memory.take(way), where.size, device)
        page = shared_memory.adopt(shared_memory.take(way), PAGE, "cpu")
    return Runner(block, Page(page.map), where, device)


class TimedCalls:
    """`take` and `rest` come before the candidate's text is loaded, `open` and `serve` after."""

    def __init__(self) -> None:
        self.runner: Runner | None = None

    def take(self, door: int, plan: dict, device: str) -> dict:
        import torch

        torch.set_grad_enabled(False)
        self.runner = runner(door, plan, device)
        return {}

    def rest(self, long: bool) -> dict:
        self.runner.rest(long)
        return {}

    def open(self, candidate: Any, calls: int, mode: str) -> dict:
        """From now on a batch is `calls` calls of the candidate (candidate_main.Held)."""
        sets = [{**candidate.tensors, **self.runner.inputs(at)} for at in range(calls)]

        def call(at: int, slots: list[Any]) -> Any:
            candidate.tensors = sets[at]
            candidate.loaded.point(sets[at], self.runner.plan.inputs)
            return candidate.call_into(slots)

        return self.runner.open(call, calls, mode)

    def record(self) -> dict:
        """{us: microseconds in which the GPU worked during one batch more, by CUPTI}."""
        from engine.evaluate.timing.cupti import busy_us, record

        return {"us": busy_us(record(self.runner.batch))}

    def serve(self) -> dict:
        """Run batches until the engine stops."""
        self.runner.serve()
        return {}
