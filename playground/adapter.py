"""An engine process as the database sees it: a heartbeat, leases, and many sessions, each written to its own log.

`Adapter` does not depend on the engine's internals. It gets `run` (engine.session.runner.run, from the management
command; a script of events, from the tests) and drives it for each session in a thread (playground.live.running). A
session is taken when its memory fits beside the others; until then it waits in the queue. Which session's work runs
next is decided in the engine (engine.executors), not here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils import timezone

from engine.executors.memory import ON_A_GPU, USUAL, Memory
from playground import conf, engines
from playground.live import log
from playground.live.connections import close_if_broken
from playground.live.desk import Desk
from playground.live.mailbox import Mailbox
from playground.live.running import Running
from playground.models import Engine, new_id

logger = logging.getLogger(__name__)

IDLE = 0.25  # seconds between checks for work: the first event comes within this time after pressing Run
# On a GPU, sessions that start at a time. To start one costs up to 20 CPU seconds of imports, so that 16 at once have
# their first trials after a minute, while the GPU waits. Sixteen sessions whose CuTe programs did not build took 96 s
# with eight at a time and 103 s with four (H200, 16 cores, 2026-11-23). A session without a trial after STARTS_WITHIN
# seconds (a module that loops) no longer counts.
STARTING, STARTS_WITHIN = 8, 20.0
REFILL = 1.0  # seconds between two looks whether enough is prepared for the next sessions
LEAVE = 10.0  # seconds that the sessions of an ending engine have to end their processes


class Adapter:
    """One engine process. `run(spec, device=, history=, read_blob=, control=, began=, share=)` yields {event, blobs,
    t}; for a session with a visitor's endpoint it gets `postbox=` too (playground.live.keys.Postbox).

    `about`: {device: {...}, sandbox, toolchain} for the page; `serves`: cuda | modelled:NAME. `warm` is called before
    the first session and after each claim, in a thread of its own, to prepare for the next one. `desks`: each makes one
    for the engine's id, that answers texts beside the sessions (playground.live.desk).
    """

    def __init__(
        self, run: Callable[..., Iterator[Any]], *, serves: str, about: dict[str, Any],
        warm: Callable[[], None] = lambda: None, memory: Memory | None = None,
        desks: Iterable[Callable[[str], Desk]] = (),
    ):  # fmt: skip
        self.run, self.serves, self.about, self.warm = run, serves, about, warm
        self.engine_id = new_id()
        self.memory = memory or Memory(_memory_limit(), ON_A_GPU if serves == "cuda" else USUAL)
        self.most = conf.get("UCUTLASS_SESSIONS")
        self.desks = [desk(self.engine_id) for desk in desks]
        self.mailbox = Mailbox()
        self.running: dict[threading.Thread, Running] = {}  # changed by the main thread alone
        self._admitting = threading.Lock()
        self._leaving = threading.Event()
        self._done = threading.Event()
        self._stir = threading.Event()  # wakes the heartbeat: a session was taken, or the process ends
        self._free = threading.Event()  # wakes the main thread: a session ended
        self._cold = threading.Event()  # wakes the thread that prepares for the next session

    # ---- the process ----

    def serve(self, *, once: bool = False) -> None:
        """Work until SIGTERM or SIGINT; `once`: until no session waits. Blocks the main thread."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)
        Engine.objects.filter(seen__lt=timezone.now() - timedelta(days=1)).delete()
        Engine.objects.create(id=self.engine_id, serves=self.serves, **self.about)
        beat = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        beat.start()
        threading.Thread(target=self._prepare, name="warm", daemon=True).start()
        for desk in self.desks:
            threading.Thread(target=desk.run, name=f"desk {desk.kind}", daemon=True).start()
        try:
            while not self._leaving.is_set():
                try:
                    close_if_broken()
                    lease = self._claim()
                except (DatabaseError, InterfaceError):
                    logger.exception("the database did not answer; trying again")
                    self._leaving.wait(1)
                    continue
                if lease is not None:
                    self.begin(lease)
                    self._cold.set()
                elif once and not self.running:
                    return
                else:
                    self._free.wait(IDLE)
                    self._free.clear()
        finally:
            for desk in self.desks:
                desk.close()
            self._release()
            self._done.set()
            self._stir.set()
            beat.join(5)
            with contextlib.suppress(DatabaseError, InterfaceError):
                Engine.objects.filter(id=self.engine_id).delete()

    def _prepare(self) -> None:
        """Prepare for the first session, and again after each claim; many claims at once count as one. A session takes
        what was prepared some time after its claim, so on a GPU, where that takes long to make, look again and
        again."""
        while not self._leaving.is_set():
            self.warm()
            self._cold.wait(REFILL if self.serves == "cuda" and self.running else None)
            self._cold.clear()

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._leaving.is_set():  # a second one: the leases expire, and nothing is lost
            os._exit(130)
        self._leaving.set()
        self._free.set()

    def _claim(self) -> log.Lease | None:
        """The next session, if another one may be taken now."""
        for thread in [thread for thread in self.running if not thread.is_alive()]:
            del self.running[thread]
        with self._admitting:
            if not self._has_room():
                return None
        suspects = not any(r.isolated for r in self.running.values())
        own_keys = sum(r.waits for r in self.running.values()) < self.most
        return log.claim(self.engine_id, self.serves, suspects=suspects, own_keys=own_keys)

    def _has_room(self, again: Running | None = None) -> bool:
        """Whether one more session may work now, or `again`, which waited for its owner or a key. Those that wait need
        no room; what they hold is measured with the rest. One may always work."""
        here = [r for thread, r in list(self.running.items()) if thread.is_alive() and not r.waits]
        at_work = [r for r in here if not r.rests]
        if any(r.isolated for r in at_work):
            return False
        new = [r for r in at_work if not r.settled]
        late = time.monotonic() - STARTS_WITHIN
        if self.serves == "cuda" and sum(r.began > late for r in new) >= STARTING:
            return False
        if again is not None and not at_work:
            return True
        holds = again is not None and again.settled  # what it needs it holds
        return len(at_work) < self.most and self.memory.fits_another(len(here), len(new) - holds)

    def _admit(self, running: Running) -> bool:
        """Let a session work whose key came or whose owner said something, if there is room. Called in its thread."""
        with self._admitting:
            if self._has_room(running):
                running.waits, running.rests, running.began = False, False, time.monotonic()
        return not running.idle

    def _release(self) -> None:
        """Give every session back, so that another engine continues it."""
        for running in self.running.values():
            running.leave()
        deadline = time.monotonic() + LEAVE
        for thread in self.running:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _beat(self) -> None:
        """After each pause of playground.engines, write the heartbeat and renew the leases."""
        while True:
            self._stir.wait(engines.pause(busy=bool(self.running)))
            self._stir.clear()
            if self._done.is_set():
                break
            at_work = [r for thread, r in list(self.running.items()) if thread.is_alive()]
            try:
                close_if_broken()
                with transaction.atomic():  # one lock for all writes
                    Engine.objects.filter(id=self.engine_id).update(seen=timezone.now(), sessions=len(at_work))
                    lost = log.renew([r.lease for r in at_work])
                for running in at_work:
                    if running.lease in lost:  # if it ended meanwhile, this does nothing
                        running.lose()
            except (DatabaseError, InterfaceError):
                logger.exception("a heartbeat failed")
        connection.close()

    # ---- a session ----

    def begin(self, lease: log.Lease) -> None:
        """Work on a session in a thread of its own."""
        running = Running(lease, self.run, self.serves, self.mailbox, self._admit)
        thread = threading.Thread(target=self._work, args=(running,), name=f"session {lease.session_id[:6]}")
        self.running[thread] = running
        thread.daemon = True  # an engine that must end does not wait for a session that cannot
        thread.start()
        self._stir.set()

    def _work(self, running: Running) -> None:
        try:
            running.work()
        finally:
            connection.close()
            self._free.set()
            self._stir.set()


def _memory_limit() -> int | None:
    """Bytes, or None for the default. Raises BadSetting."""
    text = conf.get("UCUTLASS_MEMORY_GIB")
    try:
        gib = float(text or 0)
    except ValueError:
        gib = -1.0
    if gib < 0 or (text and gib < 1):
        raise conf.BadSetting(f"UCUTLASS_MEMORY_GIB={text!r} is not a number from 1. Write for example 12.")
    return int(gib * (1 << 30)) or None
