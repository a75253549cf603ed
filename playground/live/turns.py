"""The order of the queue: the sessions of one address do not delay those of others.

The next session belongs to the address with the fewest running ones; among equals, to the one that was served longest
ago, or never. An address is known only by its origin (playground.access.limits.origin). A session forgets its origin
when it ends, and the time at which an origin was last served is kept for KEPT, so that starting one session after the
other gains no turn.

A session that took an engine's time without a single trial (a module that loops, an endless trace) counts as a running
one of its address for KEPT: in the order, and against the address's places in the queue.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Count, QuerySet
from django.utils import timezone

from engine.session import events
from playground.models import Session, Turn, Waste

KEPT = timedelta(hours=1)
# Seconds of work without a trial that count. A refused module takes 0.1 to 3 s, an endless trace is ended after 30 s.
WASTED = 20.0
OURS = ("engine_error", "engine_lost", "unreadable_log", "unreadable_session")  # ends that no sender is to blame for


def in_turn(sessions: Iterable[Session]) -> list[Session]:
    """Sessions that may be claimed, in the order in which engines take them if none ends meanwhile.

    A session that an engine has started precedes all waiting ones, because its owner saw it start.
    """
    waiting = sorted(sessions, key=lambda s: s.created)
    if len(waiting) < 2:
        return waiting
    begun = [s for s in waiting if s.last_seq or s.state == Session.RUNNING]
    queues: dict[str, deque[Session]] = {}
    for s in waiting:
        if not (s.last_seq or s.state == Session.RUNNING):
            queues.setdefault(s.origin, deque()).append(s)
    if len(queues) < 2:
        return begun + [s for queue in queues.values() for s in queue]
    active = Session.objects.filter(state=Session.RUNNING, origin__in=queues, lease_until__gte=timezone.now())
    running = Counter(dict(active.values_list("origin").annotate(n=Count("id"))))
    running.update(dict(_wastes().filter(origin__in=queues).values_list("origin").annotate(n=Count("id"))))
    served = dict(Turn.objects.filter(origin__in=queues).values_list("origin", "served"))
    # (number running or wasted, time of service: step 0 and the time in seconds, or the step of this order, first in
    # its queue)
    heap = [
        (running[o], 0, served[o].timestamp() if o in served else 0.0, queue[0].created, o)
        for o, queue in queues.items()
    ]
    heapq.heapify(heap)
    order: list[Session] = []
    while heap:
        busy, _, _, _, origin = heapq.heappop(heap)
        queue = queues[origin]
        order.append(queue.popleft())
        if queue:
            heapq.heappush(heap, (busy + 1, len(order), 0.0, queue[0].created, origin))
    return begun + order


def served(origin: str) -> None:
    """Record that an engine takes a session of this origin now. The caller holds the transaction of the claim."""
    if origin:
        Turn.objects.update_or_create(origin=origin, defaults={"served": timezone.now()})
        forget()


def work_of(end: events.SessionEnded) -> float:
    """Seconds in which an engine worked for a session, without those that the session waited for a place. A GPU's
    seconds are counted by what was done there. An older engine logged only the whole time."""
    work = [s for name, s in end.spent.items() if name != "gpu" and not name.startswith("wait_")]
    return sum(work) if end.spent else end.seconds


def ended(origin: str, end: events.SessionEnded) -> None:
    """Record that a session of this origin ended, if it only took time. The caller holds the transaction."""
    if origin and not end.trials and end.code not in OURS and work_of(end) >= WASTED:
        Waste.objects.create(origin=origin)


def wastes(origin: str) -> int:
    """How many sessions of an origin only took time within KEPT."""
    return _wastes().filter(origin=origin).count()


def _wastes() -> QuerySet[Waste]:
    return Waste.objects.filter(ended__gt=timezone.now() - KEPT)


def forget() -> int:
    """Delete records older than KEPT. Returns their number."""
    old = timezone.now() - KEPT
    return Turn.objects.filter(served__lt=old).delete()[0] + Waste.objects.filter(ended__lt=old).delete()[0]
