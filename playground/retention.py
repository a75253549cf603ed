"""Deletion of old data, as the README promises.

Sessions are deleted UCUTLASS_RETENTION_DAYS after their end or, if they never ended, after their start. Recordings
stay, and so do sessions that their owner pinned, and snapshots until their owner deletes them. Texts that no session
uses are deleted too. A session forgets at its end which address started it. A room of a workshop goes with its seats,
its answers, its seats' sessions and the snapshots of these.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from playground import conf
from playground.access import owners
from playground.live import desk, turns
from playground.models import Blob, Room, Session
from playground.rooms import rules

ROOMS = 30  # days after its deadline, or after it was opened, that a room is kept at most
FRESH = timedelta(hours=1)  # a text this young may belong to an event that is being appended


def sweep(days: int | None = None) -> tuple[int, int]:
    """Delete old data. Returns the numbers of deleted (sessions, texts)."""
    now = timezone.now()
    days = conf.get("UCUTLASS_RETENTION_DAYS") if days is None else days
    limit = now - timedelta(days=days)
    active = Q(state=Session.RUNNING, lease_until__gt=now)
    staying = Q(recorded=True) | Q(pinned=True) | Q(snapshot__isnull=False)
    old = Session.objects.filter(Q(ended__lt=limit) | Q(ended=None, created__lt=limit)).exclude(active).exclude(staying)
    sessions = 0
    for session_id in list(old.values_list("id", flat=True)):  # one transaction each: viewers and engines continue
        sessions += bool(Session.objects.filter(id=session_id).delete()[0])
    _forget_rooms(now, days)
    turns.forget()
    owners.forget()
    desk.forget()
    with transaction.atomic():
        texts, _ = Blob.objects.filter(sessions=None, created__lt=now - FRESH).delete()
    return sessions, texts


def _forget_rooms(now: datetime, days: int) -> None:
    """Delete rooms with everything in them, at most ROOMS days after their deadline or, without one, their opening."""
    limit = now - timedelta(days=min(days, ROOMS))
    for room in Room.objects.filter(created__lt=limit).filter(Q(deadline=None) | Q(deadline__lt=limit)):
        rules.delete(room)
