"""Sharing over HTTP: snapshots, pins, notes and records of sessions."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Header, Router, Schema, Status
from pydantic import ConfigDict, Field

from engine import record as records
from playground.access import limits, owners, sessions
from playground.access.answers import Refused
from playground.models import Session, Snapshot
from playground.openapi.forms import SessionMade, json_of
from playground.sharing import again, notes, snapshots

router = Router(tags=["sharing"])
Body = ConfigDict(extra="forbid", strict=True)
RECORD = {
    "type": "object", "description": "as engine.record writes it", "required": ["version", "id", "hashes"],
    "properties": {
        "version": {"type": "integer"}, "id": {"type": "string", "description": "binds the hashes"},
        "hashes": {"type": "object", "additionalProperties": {"type": "string"}}, "fields": {"type": "object"},
        "events": {"type": "array", "items": {"$ref": "#/components/schemas/SessionEvent"}},
        "texts": {"type": "object", "additionalProperties": {"type": "string"}},
        "reproductions": {"type": "array", "items": {"type": "object"}},
    },
}  # fmt: skip
RIGHT = "The right comes as for commands: X-Control-Token, or the owner token of the session in Authorization."


class SnapshotIn(Schema):
    """What a snapshot holds besides times, verdicts and figures."""

    model_config = Body

    source: bool = Field(True, description="the module, the programs and the generated code")
    transcript: bool = Field(True, description="the model's turns; never without the source, which they quote")


class SnapshotOut(Schema):
    """`record`: the SHA-256 that fixes its content (engine.record)."""

    id: str
    url: str
    record: str
    created: float
    shared: dict[str, bool]


class RunIn(Schema):
    """What `engine reproduce` says of a record (engine.record.rerun.plain)."""

    model_config = Body

    when: str = Field(max_length=40)
    device: str = Field(max_length=80)
    verdict: Literal[records.VERDICTS]
    trials: list[dict[str, Any]] = Field(max_length=16)


class Runs(Schema):
    """`runs`: those that could confirm or refute it."""

    reproduced: int
    runs: int


class AgainIn(Schema):
    """All may be left out: then the session's own module runs again, and the two are compared."""

    model_config = Body

    source: str = Field("", description="the module's text with other sizes, to which the best programs are carried")
    sizes: str = Field("", max_length=60, description='they in words, such as "N = 4096", for the title')


class AgainOf(Schema):
    """`verdict`: one of engine.record.VERDICTS; `recorded`, `again`: the time, ratio and interval in each."""

    trial: int
    verdict: Literal[records.VERDICTS]
    why: str
    recorded: dict[str, Any]
    again: dict[str, Any]


class AgainOut(Schema):
    """`of`: the id of the original, "" if it is deleted; `verdict`: the worst of the trials."""

    of: str
    title: str
    when: str
    device: str
    verdict: Literal[records.VERDICTS]
    trials: list[AgainOf]


class PinIn(Schema):
    model_config = Body

    pinned: bool


class NoteIn(Schema):
    model_config = Body

    text: str = Field(description='"" removes the note')


class NoteOut(Schema):
    trial: int
    text: str


class NotesOut(Schema):
    notes: dict[str, str] = Field(description="by the trial's number")


@router.post(
    "/sessions/{session_id}/snapshots", response={201: SnapshotOut}, summary="Take a snapshot of a finished session",
    description=f"The same content gives the same snapshot. {RIGHT}",
)  # fmt: skip
def take(request: HttpRequest, session_id: str, asked: SnapshotIn, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token)
    sessions.limited(limits.checks, [limits.address(request)], "snapshots")
    return Status(201, _row(request, snapshots.take(session, source=asked.source, transcript=asked.transcript)))


@router.get("/sessions/{session_id}/snapshots", response=dict[str, list[SnapshotOut]], summary="Your snapshots of it")
def list_snapshots(request: HttpRequest, session_id: str, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token)
    rows = Snapshot.objects.filter(of=session.id).select_related("session").order_by("-created")
    return {"snapshots": [_row(request, row) for row in rows]}


@router.delete("/snapshots/{snapshot_id}", response={204: None}, summary="Delete a snapshot, with the original's right")
def delete(request: HttpRequest, snapshot_id: str, x_control_token: str = Header("")):
    row = _mine(request, snapshot_id, x_control_token)
    Session.objects.filter(id=row.session_id).delete()
    return HttpResponse(status=204)


@router.post(
    "/snapshots/{snapshot_id}/reproductions", response={201: Runs}, summary="Attach a run of `engine reproduce`",
    description="With the right of the original, since nobody here can check a run made elsewhere.",
)  # fmt: skip
def attach(request: HttpRequest, snapshot_id: str, asked: RunIn, x_control_token: str = Header("")):
    row = _mine(request, snapshot_id, x_control_token)
    sessions.limited(limits.commands, [row.session_id], "runs")
    good, runs = snapshots.attach(row, asked.dict())
    return Status(201, {"reproduced": good, "runs": runs})


@router.post(
    "/sessions/{session_id}/again", response={201: SessionMade},
    summary="Run the best trials of an ended session again",
    description="A new session tries its candidates with fresh inputs and searches nothing. Whoever has the link may.",
)  # fmt: skip
def run_again(request: HttpRequest, session_id: str, asked: AgainIn | None = None):
    session = sessions.find(limits.address(request), session_id)
    resized = (asked.source, asked.sizes) if asked else ()
    return Status(201, sessions.links(request, *again.start(owners.caller(request), session, *resized)))


@router.get(
    "/sessions/{session_id}/again", response=AgainOut, summary="What a session that ran again says of its original"
)
def compared(request: HttpRequest, session_id: str):
    session = sessions.find(limits.address(request), session_id)
    original = again.runs_of(session)
    if original is None:
        raise Refused(
            404, "This session runs no other one again.", f"POST /api/sessions/{session.id}/again starts one."
        )
    return again.compared(session) | {"of": original["of"], "title": original["title"]}


@router.post(
    "/sessions/{session_id}/pin", response=PinIn, summary="Keep a session, or let it be deleted in time",
    description=RIGHT,
)  # fmt: skip
def pin(request: HttpRequest, session_id: str, asked: PinIn, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token)
    Session.objects.filter(id=session.id).update(pinned=asked.pinned)
    return {"pinned": asked.pinned}


@router.get("/sessions/{session_id}/notes", response=NotesOut, summary="The owner's notes on trials")
def read_notes(request: HttpRequest, session_id: str):
    session = sessions.find(limits.address(request), session_id)
    return {"notes": {str(trial): text for trial, text in notes.of(session).items()}}


@router.put(
    "/sessions/{session_id}/notes/{trial}", response=NoteOut, summary="Write a note to a trial", description=RIGHT
)
def write_note(request: HttpRequest, session_id: str, trial: int, asked: NoteIn, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token)
    sessions.limited(limits.commands, [session.id], "notes")
    return {"trial": trial, "text": notes.write(session, trial, asked.text)}


@router.get(
    "/sessions/{session_id}/record", summary="What a finished session's results rest on, bound by hashes",
    description="For `python -m engine reproduce`, which takes the session's link too.",
    openapi_extra=json_of(RECORD),
)  # fmt: skip
def record(request: HttpRequest, session_id: str):
    session = sessions.find(limits.address(request), session_id)
    sessions.limited(limits.checks, [limits.address(request)], "records")
    return JsonResponse(snapshots.record_of(session), json_dumps_params={"ensure_ascii": False})


def _mine(request: HttpRequest, snapshot_id: str, secret: str) -> Snapshot:
    """The snapshot, for who controls its original. Raises Refused."""
    address = limits.address(request)
    row = limits.guesses.look(
        address, snapshot_id, Snapshot.objects.filter(session_id=snapshot_id).select_related("owner").first
    )
    if row is None:
        raise Refused(404, "There is no such snapshot.", "Check the link; it may have been deleted.")
    owner = None if secret else owners.bearer(request)
    if owner is None or row.owner_id != owner.id:
        sessions.must_control(address, row, secret)
    return row


def _row(request: HttpRequest, row: Snapshot) -> dict[str, Any]:
    return {
        "id": row.session_id,
        "url": request.build_absolute_uri(reverse("session", args=[row.session_id])),
        "record": row.record["id"],
        "created": row.created.timestamp(),
        "shared": row.session.provenance["shared"],
    }
