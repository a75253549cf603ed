"""Lanes run steps: as many at a time as the device has lanes, while the owner's commands are read.

Each lane is one thread for the whole session. Work that needs no lane (a thinking script, a model's turn) has a thread
of its own. In its thread, a piece of work first waits for its place on the machine, which it shares with other sessions
(engine.executors). The generators, and so all events, run in the caller's thread.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Thread
from typing import Any

from engine.executors import Cancelled, Executor, Lost, Share, Turn, words
from engine.executors.local import local
from engine.session import events
from engine.session.owner import POLL, Owner
from engine.session.script.spent import Spent
from engine.session.script.steps import Emitted, Events, Logged, Steps, Stopped, Wait, Work
from engine.words import count

logger = logging.getLogger(__name__)

GRACE = 2.0  # seconds that a stopped session waits for a script or a turn to end
WORTH_SAYING = 1.0  # seconds of waiting for a place before the log says so
SAID_AGAIN = 5.0  # seconds before it says so again, if less stands before it by then
MOST_LOST = 3  # places that one piece of work may lose with their workers


@dataclass
class Job:
    """Steps that run. `beside`: the work takes no lane. `result`: the steps' return value."""

    steps: Steps[Any]
    beside: bool = False
    result: Any = None
    done: bool = False
    lane: int | None = None
    future: Future | None = None
    work: Work | None = None  # what the future computes
    waiting: Wait | None = None
    turn: Turn | None = None  # in the line for the place of the current work
    announced: bool = False  # the log says that it waits for its place
    ahead: int = 0  # as many pieces of work before it as the log says
    after: float = 0.0  # seconds of waiting after which the log may say so again


class Lanes:
    """`owner`: its commands are read while work runs. `executor`: gives work its place, by the session's `share`.
    `spent`: where the session's time went. There is one lane until `widen`."""

    def __init__(self, owner: Owner, executor: Executor | None = None, share: Share | None = None):
        self.owner, self.executor, self.share = owner, executor or local(), share or Share(session=str(id(owner)))
        self.spent = Spent()
        self._pools: list[ThreadPoolExecutor] = []
        self._busy: set[int] = set()
        self._rests = False
        self.widen(1)

    def widen(self, many: int) -> None:
        while len(self._pools) < many:
            self._pools.append(ThreadPoolExecutor(1, f"lane {len(self._pools)}"))

    @property
    def free(self) -> int | None:
        """The first idle lane, or None."""
        return next((i for i in range(len(self._pools)) if i not in self._busy), None)

    def call(self, work: Callable[[], Any], place: str = "", doing: str = "", *, beside: bool = False) -> Logged[Any]:
        """The result of one piece of work. Raises Stopped if the owner stops the session, whatever the work returns."""

        def steps() -> Steps[Any]:
            return (yield Work(work, place, doing))

        (result,) = yield from self.run([Job(steps(), beside)])
        return result

    def run(self, jobs: Iterable[Job] = (), more: Callable[[], Job | None] = lambda: None) -> Logged[list[Any]]:
        """Run `jobs`, and what `more()` returns whenever a lane is free, to their ends. Return the results of `jobs` in
        order.

        While the session is paused, nothing new starts; without running jobs, this call waits. Raises Stopped when the
        owner stops: it waits for running work and drops its results. Raises what a job raises.
        """
        jobs = list(jobs)
        waiting, active = deque(jobs), []
        try:
            while True:
                yield from self.owner.hear()
                if self.owner.stopped:
                    raise Stopped
                idle = not active and not waiting
                while not self.owner.paused and (job := self._begun(waiting, more)) is not None:
                    active.append(job)
                    idle = False
                    yield from self._awake()
                    yield from self._go(job)
                ready = [job for job in active if not job.done and self._ready(job)]
                if ready:
                    yield from self._awake()
                for job in ready:
                    yield from self._go(job)
                active[:] = [job for job in active if not job.done]
                for job in active:
                    yield from self._announce(job)
                    if job.future is not None:
                        yield from job.work.meanwhile()
                if idle and not self.owner.paused:
                    return [job.result for job in jobs]
                if not ready and (active or waiting or self.owner.paused):
                    self._pause(active)
        finally:
            self._settle(active)

    def _begun(self, waiting: deque[Job], more: Callable[[], Job | None]) -> Job | None:
        """The next job that can start, with its lane taken."""
        for job in waiting:
            if job.beside or self.free is not None:
                waiting.remove(job)
                return self._seated(job)
        if self.free is None:
            return None
        job = more()
        return None if job is None else self._seated(job)

    def _seated(self, job: Job) -> Job:
        if not job.beside:
            job.lane = self.free
            self._busy.add(job.lane)
        return job

    def _ready(self, job: Job) -> bool:
        if job.future is not None:
            return job.future.done()
        return job.waiting is None or job.waiting.until() is not None

    def _go(self, job: Job) -> Logged[None]:
        """Advance the steps as far as possible without blocking."""
        value, error = None, None
        if job.future is not None:
            error = job.future.exception()
            value = None if error is not None else job.future.result()
        elif job.waiting is not None:
            value = job.waiting.until()
        job.future = job.waiting = None
        while True:
            try:
                step = job.steps.throw(error) if error is not None else job.steps.send(value)
            except StopIteration as e:
                job.result = e.value
                self._end(job)
                return
            except BaseException:
                self._end(job)
                raise
            value = error = None
            if isinstance(step, Emitted):
                yield step
            elif isinstance(step, Wait):
                job.waiting = step
                return
            else:
                job.work, job.turn = step, self._turn(step)
                run = functools.partial(self._placed, step, job)
                job.future = _in_thread(run) if job.beside else self._pools[job.lane].submit(run)
                return

    def _turn(self, work: Work) -> Turn | None:
        return self.executor.turn(work.place, self.share) if work.place else None

    def _placed(self, work: Work, job: Job) -> Any:
        """In the work's thread: wait for the place, then run; again elsewhere if the place is lost."""
        if job.turn is None:
            with self.spent.on(work.doing):
                return work.run()
        lost = 0
        while True:
            try:
                with self.executor.hold(job.turn, self.owner.stop.is_set) as turn:
                    self.spent.waited(turn.place, turn.waited)
                    with self.spent.on(work.doing, turn.place):
                        return work.run()
            except Cancelled:
                raise Stopped from None
            except Lost:
                lost += 1
                if lost > MOST_LOST:
                    raise
                logger.warning("%s was lost with its worker; the work runs again", work.place)
                job.turn = self._turn(work)

    def _announce(self, job: Job) -> Events:
        """Say that a job waits for its place, and when it got it."""
        turn = job.turn
        if turn is None or job.future is None:
            return
        due = job.after if job.announced else WORTH_SAYING
        if turn.waiting and turn.waited > due and ((before := turn.ahead()) < job.ahead or not job.announced):
            job.ahead = before
            line = f": {count(before, 'piece')} of work before it" if before else ""
            job.announced, job.after = True, turn.waited + SAID_AGAIN
            yield from self.owner.journal.emit(events.Progress(f"Waiting for {words(turn.place)}{line}", "wait"))
        elif job.announced and not turn.waiting:
            job.announced = False
            yield from self.owner.journal.emit(
                events.Progress(f"Waited {turn.waited:.1f} s for {words(turn.place)}; working again", "place")
            )

    def _end(self, job: Job) -> None:
        job.done = True
        self._busy.discard(job.lane)

    def _pause(self, active: list[Job]) -> None:
        """Wait until some work is done, at most the time between two checks for the owner's commands."""
        futures = [job.future for job in active if job.future is not None]
        if futures:
            wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
            return
        if not self._rests and all(job.waiting is not None and job.waiting.for_owner for job in active):
            self._rests = True
            self.owner.rest()
        time.sleep(POLL)

    def _awake(self) -> Events:
        """Before a session that rested goes on: wait until there is room for it again. Raises Stopped."""
        began, announced = time.monotonic(), False
        while self._rests:
            if self.owner.admitted():
                self._rests = False
                break
            if not announced and time.monotonic() - began > WORTH_SAYING:
                announced = True
                yield from self.owner.journal.emit(events.Progress("Waiting for room in the engine", "wait"))
            time.sleep(POLL)
            yield from self.owner.hear()
            if self.owner.stopped:
                raise Stopped
        if announced:
            waited = time.monotonic() - began
            text = f"Waited {waited:.1f} s for room in the engine; working again"
            yield from self.owner.journal.emit(events.Progress(text, "place"))

    def _settle(self, active: list[Job]) -> None:
        """End the running work and drop its results. Waits for a device's work without a limit."""
        active = [job for job in active if not job.done]
        if active:
            self.owner.stop.set()
        until = time.monotonic() + GRACE
        for job in active:
            while job.future is not None and not job.future.done():
                if job.beside and time.monotonic() > until:
                    logger.warning("a script or a turn still runs after the session's end")
                    break
                wait([job.future], timeout=POLL)
            self._end(job)
            job.steps.close()

    def close(self, last: Callable[[], None] | None = None) -> None:
        """End the running work, then run `last` in the first lane. Returns when both are done."""
        self.owner.stop.set()
        if last is not None:
            self._pools[0].submit(_quietly, last)
        for pool in self._pools:
            pool.shutdown(wait=True)


def _in_thread(work: Callable[[], Any]) -> Future:
    """A daemon thread: a script that ignores stop must not keep the engine from ending."""
    future: Future = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as e:
            future.set_exception(e)

    Thread(target=body, name="beside", daemon=True).start()
    return future


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        logger.exception("the device did not close cleanly")
