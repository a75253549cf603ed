"""The tables. A session's truth is its log; the session's row holds the folded values that a list needs.

Who may write what: the web process creates sessions and commands; the engine that holds a session's lease appends to
its log (playground/live/log.py), and nothing else writes a SessionEvent.
"""

from __future__ import annotations

import secrets
import zlib
from typing import Any

from django.db import models
from django.utils import timezone

MAX_BLOB_BYTES = 32 << 20


class AppendOnly(Exception):
    """A log row was about to be changed. Events are never changed; append a new one instead."""


def new_id() -> str:
    """An unguessable name of 128 bits for a link."""
    return secrets.token_urlsafe(16)


class OwnerToken(models.Model):
    """A bearer token that controls every session started with it; only its hash is stored, None once it is revoked.

    `key_hash`: hash of the key of the browser (or program) that made it, which lists and revokes its tokens and
    controls their sessions (playground.access.owners). `last_used` is written at most once a minute.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_id, editable=False)
    token_hash = models.CharField(max_length=64, unique=True, null=True)
    key_hash = models.CharField(max_length=64, db_index=True)
    label = models.CharField(max_length=80, blank=True)
    created = models.DateTimeField(default=timezone.now)
    last_used = models.DateTimeField(null=True)
    revoked = models.DateTimeField(null=True)


class Session(models.Model):
    """One optimisation. `id` is the view link's token; only the hash of the control token is stored."""

    QUEUED, RUNNING, ENDED = "queued", "running", "ended"

    id = models.CharField(primary_key=True, max_length=40, default=new_id, editable=False)
    control_hash = models.CharField(max_length=64, blank=True, db_index=True)
    title = models.CharField(max_length=200)
    spec = models.JSONField()  # the request: source, source_kind, strategy, classes, trials, eps, window
    device = models.CharField(max_length=40, default="auto")  # auto | cuda | modelled:NAME, as requested
    state = models.CharField(max_length=8, default=QUEUED)
    created = models.DateTimeField(default=timezone.now)
    ended = models.DateTimeField(null=True)

    # Who started it, until it ends: a keyed hash of the address, for sharing the queue fairly. "": nobody.
    origin = models.CharField(max_length=16, blank=True, default="")

    # The owner token that it was started with, if any: its holder controls the session too.
    owner = models.ForeignKey(OwnerToken, models.SET_NULL, null=True, related_name="sessions")

    # The seat of a workshop that started it, if any: its room is then the account that shares the queue (`origin`).
    seat = models.ForeignKey("Seat", models.CASCADE, null=True, related_name="sessions")

    # It has a visitor's endpoint, whose key an engine waits for.
    own_key = models.BooleanField(default=False)

    # The lease: only this engine, in this claim, may append. `losses`: engines lost in a row at the same step of the
    # log, whose number is `lost_at`.
    engine_id = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True)
    claims = models.PositiveIntegerField(default=0)
    losses = models.PositiveIntegerField(default=0)
    lost_at = models.PositiveIntegerField(default=0)

    # The newest engine.session.events.VERSION that wrote to the log; 0 before its first event.
    log_version = models.PositiveSmallIntegerField(default=0)

    # Folded from the log by playground/summary.py.
    last_seq = models.PositiveIntegerField(default=0)
    summary = models.JSONField(default=dict)

    # Recordings: sessions that ran elsewhere and were loaded as data. `provenance`: {device, date, driver, command,
    # file}. Of a session that runs another's candidates again: {again}, as playground.sharing.again has it. Of a fork:
    # {forked: {speedup, baseline}}, the original's best when the fork began.
    recorded = models.BooleanField(default=False)
    provenance = models.JSONField(default=dict)
    blobs = models.ManyToManyField("Blob", related_name="sessions")

    # Its owner keeps it: retention does not delete it.
    pinned = models.BooleanField(default=False)

    class Meta:
        indexes = (
            models.Index(fields=["state", "created"], name="session_state_created"),
            models.Index(fields=["recorded", "created"], name="session_recorded_created"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.state}, {self.last_seq} events)"


class EventQuerySet(models.QuerySet):
    def update(self, **kwargs: Any) -> int:
        raise AppendOnly("The log is append-only: an event is never changed.")

    def bulk_update(self, *args: Any, **kwargs: Any) -> int:
        raise AppendOnly("The log is append-only: an event is never changed.")


class SessionEvent(models.Model):
    """One row of a session's log. `t`: seconds since the epoch; `kind` and `data` as engine.session.events encodes
    them."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    t = models.FloatField()
    data = models.JSONField()

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ("session", "seq")
        constraints = (models.UniqueConstraint(fields=["session", "seq"], name="one_event_a_seq"),)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(f"Event {self.seq} is in the log already and is never changed.")
        super().save(*args, **{**kwargs, "force_insert": True})

    def row(self) -> dict[str, Any]:
        """The event in the form for viewers."""
        return {"seq": self.seq, "kind": self.kind, "t": self.t, "data": self.data}


class Blob(models.Model):
    """A text named by the SHA-256 of its UTF-8 bytes, stored once and compressed. `size`: bytes before that."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    data = models.BinaryField()
    size = models.PositiveIntegerField()
    created = models.DateTimeField(default=timezone.now)

    @staticmethod
    def pack(sha256: str, text: str) -> Blob:
        """Raises ValueError if the text is over 32 MiB."""
        raw = text.encode()
        if len(raw) > MAX_BLOB_BYTES:
            raise ValueError(f"a text of {len(raw) >> 20} MiB is over the {MAX_BLOB_BYTES >> 20} MiB that a blob holds")
        return Blob(sha256=sha256, data=zlib.compress(raw, 6), size=len(raw))

    @property
    def text(self) -> str:
        return zlib.decompress(bytes(self.data)).decode()


class Snapshot(models.Model):
    """What makes a session a snapshot: an immutable copy of a finished session, as its owner shared it. The copy's id
    is taken from its record's (engine.record), so the link fixes the content; nobody controls it. Whoever controls the
    original, by `control_hash` or `owner`, may delete it, after the original too. `of`: the original's id, for its
    owner alone. `record`: the record without its events and texts."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="snapshot")
    of = models.CharField(max_length=40, db_index=True)
    control_hash = models.CharField(max_length=64, blank=True)
    owner = models.ForeignKey(OwnerToken, models.SET_NULL, null=True, related_name="snapshots")
    record = models.JSONField()
    created = models.DateTimeField(default=timezone.now)

    @property
    def id(self) -> str:
        return self.session_id


class Note(models.Model):
    """What the owner of a session wrote to one of its trials."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="notes")
    trial = models.PositiveIntegerField()
    text = models.TextField()
    changed = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("trial",)
        constraints = (models.UniqueConstraint(fields=["session", "trial"], name="one_note_a_trial"),)


class Command(models.Model):
    """A command of the owner to the engine: pause | resume | stop | budget | try. `handled`: when the engine took
    it."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="commands")
    kind = models.CharField(max_length=12)
    data = models.JSONField(default=dict)
    created = models.DateTimeField(default=timezone.now)
    handled = models.DateTimeField(null=True)

    class Meta:
        ordering = ("id",)


class SealedKey(models.Model):
    """A visitor's key on its way to the engine, which deletes the row when it takes it. Only the engine process that
    asked for the key can open it (engine.llm.keys). `claim`: the claim of the session that asked."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="sealed_key")
    claim = models.PositiveIntegerField()
    sealed = models.BinaryField()
    created = models.DateTimeField(default=timezone.now)


class Engine(models.Model):
    """A running engine process, as it describes itself; `seen` is its heartbeat."""

    id = models.CharField(primary_key=True, max_length=40)
    device = models.JSONField(default=dict)  # {name, kind: measured | predicted, hardware, model, ...}
    serves = models.CharField(max_length=40)  # cuda | modelled:NAME
    sandbox = models.CharField(max_length=200, blank=True)  # strength, in words
    toolchain = models.CharField(max_length=200, blank=True)
    started = models.DateTimeField(default=timezone.now)
    seen = models.DateTimeField(default=timezone.now)
    sessions = models.PositiveIntegerField(default=0)  # that it advances now


class Turn(models.Model):
    """When an engine last took a session of an origin (Session.origin); playground/live/turns.py deletes it soon."""

    origin = models.CharField(primary_key=True, max_length=16)
    served = models.DateTimeField()


class Description(models.Model):
    """A text that an engine answers beside its sessions (playground/live/desk.py). `kind`: words (a description that a
    model turns into a module) | module (one that is traced for its limit); `digest`: of a module's text. `id` is known
    to its sender alone; `origin` as in Session; `seen`: when the sender's page last asked for it; `engine_id`: of the
    engine that took it. The row is deleted within minutes."""

    id = models.CharField(primary_key=True, max_length=40, default=new_id, editable=False)
    kind = models.CharField(max_length=8, default="words")
    digest = models.CharField(max_length=64, blank=True, db_index=True)
    origin = models.CharField(max_length=16)
    text = models.TextField()
    created = models.DateTimeField(default=timezone.now, db_index=True)
    seen = models.DateTimeField(default=timezone.now)
    engine_id = models.CharField(max_length=40, blank=True)
    answered = models.DateTimeField(null=True)
    answer = models.JSONField(default=dict)  # engine.llm.module_writer.Written, or a graph


class Waste(models.Model):
    """The end of a session that took an engine's time without a trial (playground/live/turns.py), for a short time."""

    origin = models.CharField(max_length=16, db_index=True)
    ended = models.DateTimeField(default=timezone.now)


class Room(models.Model):
    """A workshop's room (playground/rooms). `code`: what its visitors type; `plan`: what the teacher chose when opening
    it (playground.rooms.plan.Plan); only the hash of the teacher's token is stored. The room's truth is its log."""

    code = models.CharField(primary_key=True, max_length=8)
    teacher_hash = models.CharField(max_length=64, unique=True)
    plan = models.JSONField()
    created = models.DateTimeField(default=timezone.now, db_index=True)
    deadline = models.DateTimeField(null=True)
    last_seq = models.PositiveIntegerField(default=0)


class Seat(models.Model):
    """A seat of a room: a student under a nickname. `name_key`: the nickname as it is compared; `token_hash`: None
    after the teacher reset the seat, until somebody takes it again."""

    room = models.ForeignKey(Room, models.CASCADE, related_name="seats")
    number = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=40)
    name_key = models.CharField(max_length=80)
    token_hash = models.CharField(max_length=64, unique=True, null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["room", "number"], name="one_seat_a_number"),
            models.UniqueConstraint(fields=["room", "name_key"], name="one_seat_a_name"),
        )


class RoomEvent(models.Model):
    """One row of a room's log, as SessionEvent is of a session's. `seat`: the number of the seat that it is about, None
    for the whole room; `kind` and `data` as playground.rooms.events has them."""

    room = models.ForeignKey(Room, models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    t = models.FloatField()
    seat = models.PositiveSmallIntegerField(null=True)
    data = models.JSONField()

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ("room", "seq")
        constraints = (models.UniqueConstraint(fields=["room", "seq"], name="one_room_event_a_seq"),)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(f"Event {self.seq} is in the log already and is never changed.")
        super().save(*args, **{**kwargs, "force_insert": True})

    def row(self) -> dict[str, Any]:
        """The event in the form for viewers."""
        return {"seq": self.seq, "kind": self.kind, "t": self.t, "seat": self.seat, "data": self.data}
