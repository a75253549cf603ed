"""The order of the queue: the sessions of one address do not delay those of others.

The next session belongs to the address with the fewest running ones; among equals, to the one that was served longest
ago, or never. An address is known only by its origin (playground.access.limits.origin). A session forgets its origin
when it ends, and the time at which an origin was last served is kept for KEPT, so that starting one session after the
other gains no turn.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Count
from django.utils import timezone

from playground.models import Session, Turn

KEPT = timedelta(hours=1)


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
    running = dict(active.values_list("origin").annotate(n=Count("id")))
    served = dict(Turn.objects.filter(origin__in=queues).values_list("origin", "served"))
    # (number running, time of service: step 0 and the time in seconds, or the step of this order, first in its queue)
    heap = [
        (running.get(o, 0), 0, served[o].timestamp() if o in served else 0.0, queue[0].created, o)
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


def forget() -> int:
    """Delete records older than KEPT. Returns their number."""
    return Turn.objects.filter(served__lt=timezone.now() - KEPT).delete()[0]
