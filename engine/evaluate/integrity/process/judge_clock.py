"""The requests of the judge that time a candidate from outside (engine.evaluate.timing.outside)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from engine import door
from engine.evaluate import shared_memory, shared_tensors
from engine.evaluate.shared_tensors import Region
from engine.evaluate.timing.outside.clock import SIDES, Clock, Ended


class ClockRequests:
    """Every public method is a request. `judge`: judge_main.Judge, which has the problem, and
    examines the results of timed calls."""

    def __init__(self, judge: Any):
        self.judge = judge
        self.clock: Clock | None = None
        self.pairs = 0

    def clock_open(self, request: dict) -> dict:
        """Memory for both timed processes; its descriptors go through the door, block and page of the candidate's
        first. {plan, least: calls of the smallest batch}, or {not_shared: why}."""
        self.clock_close({})
        self.judge.take({})  # not those of the rounds before
        try:
            self.clock = Clock(self.judge.graph, self.judge.device, request["shortest_ms"])
            with shared_memory.door() as way:
                for fd in self.clock.descriptors():
                    door.give(way, fd, shared_memory.SECONDS)
        except shared_memory.NotShared as e:
            self.clock_close({})
            return {"not_shared": str(e)}
        for side in self.clock.sides.values():
            side.block.shared()
            side.memory.shared()
        return {"plan": self.clock.plan.to_json(), "least": self.clock.least()}

    def clock_rest(self, request: dict) -> dict:
        """What batches of each of `calls` take without calls, on both sides; `long`: see Runner.rest."""
        try:
            for name in SIDES:
                for calls in request["calls"]:
                    self.clock.rest(name, calls, request["long"])
        except Ended:
            return {"ended": True}
        return {}

    def clock_lay(self, request: dict) -> dict:
        """Where the candidate's process says that its results lie. {bad: why} if they cannot."""
        try:
            self.clock.lay(request["results"])
        except ValueError as e:
            return {"bad": str(e)}
        return {}

    def clock_pair(self, request: dict) -> dict:
        """A batch of the baseline and one of the candidate on the same fresh inputs: {theirs, ours: ms of a call,
        unwritten}. The order changes with each pair."""
        calls, clock = request["calls"], self.clock
        work = {
            "theirs": lambda: clock.batch("theirs", calls),
            "ours": lambda: clock.batch("ours", calls, request["last"]),
        }
        self.pairs += 1
        try:
            clock.draw(calls)
            done = {name: work[name]() for name in (SIDES if self.pairs % 2 else SIDES[::-1])}
        except Ended:
            return {"ended": True}
        return {"theirs": done["theirs"]["ms"], "ours": done["ours"]["ms"], "unwritten": done["ours"]["unwritten"]}

    def clock_about(self, request: dict) -> dict:
        """{looks: how many calls are to be compared, ours, theirs: see Clock.about}."""
        return {"looks": len(self.clock.looks), **self.clock.about()}

    def clock_hand(self, request: dict) -> dict:
        """Give the inputs of the look number `at` to the module's process, in the first slot."""
        self.clock.hand(self.clock.looks[request["at"]])
        return {}

    def clock_check(self, request: dict) -> dict:
        """Compare the results of the look number `at` with the module's: {results}, as the judge's `results`."""
        judge, look = self.judge, self.clock.looks[request["at"]]
        right = shared_tensors.read(Region.from_json(request["reference"]))
        judge.take({**judge.own, **look.inputs})
        comparisons = []
        for name, out in zip(judge.graph.outputs, look.results, strict=True):
            correct = right[name].to(judge.device)
            key = f"timed:{request['at']}:{name}"
            comparisons.append(judge.compare(out, correct, request["tolerance"], key))
        return {"results": comparisons}

    def clock_close(self, request: dict) -> dict:
        """Free the memory."""
        self.clock = None
        if self.judge.device == "cuda":
            torch.cuda.empty_cache()
        return {}


REQUESTS = ("open", "rest", "lay", "pair", "about", "hand", "check", "close")


def handlers(judge: Any) -> dict[str, Callable[[dict], dict]]:
    """The handlers of these requests, by the names of the operations."""
    clock = ClockRequests(judge)
    return {f"judge_clock_{name}": getattr(clock, f"clock_{name}") for name in REQUESTS}
