"""The engine's side of the outside clock: gives the judge's memory to both timed processes, and has them serve batches.

with Sides(judge, candidate, reference, limit_ms) as sides:
    sides.rest()                                  # before the candidate's text is loaded
    modes = sides.open("eager", sides.least)      # what a batch is from now on
    with sides.serving():
        theirs_ms, ours_ms = sides.pair()
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from engine.evaluate.timing.outside.plan import PAGE, Page, Plan
from engine.evaluate.timing.outside.runner import CALLS, GRAPH

SERVE_SECONDS, OPEN_SECONDS = 300.0, 120.0


class Judge(Protocol):
    def ask(self, op: str, **arguments: object) -> dict: ...

    def descriptor(self) -> int: ...


class NotTimed(Exception):
    """The outside clock cannot time this. `code`: of findings, if the candidate is the reason; else ""."""

    def __init__(self, reason: str, code: str = ""):
        super().__init__(reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class Opened:
    """How both sides run. `mode`: graph | calls; `why`: it is not a graph; `cls`, `note`: of the baseline."""

    mode: str
    why: str
    cls: str
    note: str
    calls: int


class Sides:
    """`candidate`: engine.evaluate.integrity.process.candidate.Candidate, with nothing loaded; `reference`: the
    module's Reference. All of them belong to the caller."""

    def __init__(self, judge: Judge, candidate: Any, reference: Any, limit_ms: float):
        self.judge, self.c, self.reference = judge, candidate, reference
        opened = judge.ask("clock_open", shortest_ms=limit_ms)
        if "not_shared" in opened:
            raise NotTimed(f"memory cannot be shared with its process: {opened['not_shared']}")
        self.plan, self.least = Plan.from_json(opened["plan"]), opened["least"]
        self.opened: Opened | None = None
        self.pages: list[Page] = []
        self.facts: dict = {}  # what the candidate's process says about itself after a batch
        fds = [judge.descriptor() for _ in range(4)]
        try:
            for fd in fds[1::2]:
                self.pages.append(Page(mmap.mmap(fd, PAGE)))
            for fd in fds[:2]:
                candidate.box.door.give(fd)
            candidate.ask(
                "clock_take", OPEN_SECONDS, door=candidate.box.door.inside, plan=opened["plan"],
                device=candidate.device,
            )  # fmt: skip
            reference.clock_take(*fds[2:], opened["plan"])
        finally:
            for fd in fds:
                os.close(fd)

    def rest(self) -> None:
        """Measure what a batch takes without calls, for the smallest and the largest number of calls."""
        for long in (False, True):
            self.c.ask("clock_rest", OPEN_SECONDS, long=long)
            self.reference.clock_rest(long)
            with self.serving():
                self._judged("clock_rest", calls=sorted({self.least, self.plan.slots}), long=long)

    def open(self, baseline: str, calls: int, mode: str = GRAPH) -> Opened:
        """Prepare batches of `calls` calls on both sides, as graphs if both can. Raises NotTimed if the candidate says
        what cannot be."""
        theirs, ours = self._both(baseline, calls, mode)
        modes = {str(theirs.get("mode")), str(ours.get("mode"))}
        why = "; ".join(str(side.get("why"))[:200] for side in (ours, theirs) if side.get("why"))
        if modes != {mode}:
            mode = CALLS
            theirs, ours = self._both(baseline, calls, mode)
        laid = ours.get("results")
        good = isinstance(laid, list) and len(laid) == calls and all(isinstance(row, list) for row in laid)
        bad = self.judge.ask("clock_lay", results=laid).get("bad") if good else "it named no results"
        if bad:
            raise NotTimed(bad, "garbled")
        self.opened = Opened(mode, why, str(theirs.get("cls"))[:8], str(theirs.get("note"))[:200], calls)
        return self.opened

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Both processes run batches meanwhile. Raises what ended one of them."""
        threads = [
            _Serving(self.pages[0], lambda: self.c.ask("clock_serve", SERVE_SECONDS)),
            _Serving(self.pages[1], lambda: self.reference.clock_serve(SERVE_SECONDS)),
        ]
        try:
            yield
        except Ended:
            for thread in threads:
                thread.stop()
            raise NotTimed("its process stopped to answer", "clock") from None
        finally:
            for thread in threads:
                thread.stop(quiet=True)
        for thread in threads:
            thread.stop()
        self.facts = threads[0].answer

    def pair(self, *, last: bool = False) -> tuple[float, float, int]:
        """Milliseconds of a call of the baseline and of the candidate, in adjacent batches on the same inputs, each of
        them first in every other pair; and how many elements of the candidate's results were not written."""
        answer = self._judged("clock_pair", calls=self.opened.calls, last=last)
        return answer["theirs"], answer["ours"], answer["unwritten"]

    def close(self) -> None:
        """Free the memory. Raises what the judge or the reference raises."""
        try:
            self.reference.clock_close()
        finally:
            self.judge.ask("clock_close")

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----

    def _both(self, baseline: str, calls: int, mode: str) -> tuple[dict, dict]:
        """What the baseline's and the candidate's process answer. They prepare at the same time, unless the baseline
        may try kernels and choose the fastest: a candidate beside it could spoil the choice. Raises what the baseline's
        raises, else what the candidate's does."""
        if baseline.startswith("compile"):
            return self.reference.clock_open(baseline, calls, mode), self._ours(calls, mode)
        with ThreadPoolExecutor(1) as beside:
            ours = beside.submit(self._ours, calls, mode)
            theirs = self.reference.clock_open(baseline, calls, mode)
        return theirs, ours.result()

    def _ours(self, calls: int, mode: str) -> dict:
        return self.c.ask("clock_open", OPEN_SECONDS, calls=calls, mode=mode)

    def _judged(self, op: str, **arguments: object) -> dict:
        answer = self.judge.ask(op, **arguments)
        if answer.get("ended"):
            raise Ended
        return answer


class Ended(Exception):
    """A timed process does not answer by its page; its own request says why."""


class _Serving:
    """A timed process's request `ask`, in a thread, until `stop`."""

    def __init__(self, page: Page, ask: Callable[[], dict]):
        self.page, self.answer, self._error = page, {}, None
        self._ask = ask
        for word in (Page.ARM, Page.READY, Page.GO, Page.DONE, Page.STOP):
            page[word] = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._ask()
        except BaseException as e:
            self._error = e
        finally:
            self.page[Page.STOP] = 1  # nobody waits for it any more

    def stop(self, quiet: bool = False) -> None:
        """Raises what ended it, unless `quiet`."""
        self.page[Page.STOP] = 1
        self._thread.join()
        if self._error is not None and not quiet:
            raise self._error
