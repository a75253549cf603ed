"""The limit of a module over HTTP, before any session: POST the text, then ask for the report until it is there."""

from __future__ import annotations

from typing import Any, Literal, get_args

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import Field

from playground.access import limits, requests, sessions
from playground.access.answers import Refused
from playground.live import desk
from playground.models import Description
from playground.reading import modules
from sol.hardware import HardwareError

router = Router(tags=["language"])
Class = Literal["f32", "tf32", "f16", "bf16", "fp8"]
CLASSES: tuple[Class, ...] = ("tf32", "f16")


class ModuleIn(Schema):
    text: str = Field(description="A PyTorch module as for a session: class Model(nn.Module) and get_inputs()")


class Taken(Schema):
    """`id` is known to the sender alone. Ask for /api/limits/<id> twice a second; the tracing stops if nobody does."""

    id: str


class Limit(Schema):
    """Of one precision class, in ms. `bound_by`: matrix | vector | special | memory; PyTorch's time is predicted."""

    cls: str
    ms: float
    bound_by: str
    pytorch_ms: float | None
    gap: float | None


class Elsewhere(Schema):
    name: str
    title: str
    limits: dict[str, dict[str, Any]] = Field(description="class -> {ms, bound_by}")


class Lever(Schema):
    title: str
    why: str


class Reading(Schema):
    """`state` done: the report. failed: `error`, with the `line` of the text where one is to blame."""

    state: Literal["waiting", "tracing", "done", "failed"]
    title: str = ""
    gpu: str = ""
    operations: int = 0
    seconds: float = 0.0
    sentence: str = ""
    limits: list[Limit] = Field([])
    levers: list[Lever] = Field([])
    gpus: list[Elsewhere] = Field([], description="the limits on every GPU that is known here")
    roofline: dict[str, Any] | None = Field(None, description="{figure: {data, layout}, rows, title, caption}")
    error: str = ""
    code: str = ""
    line: int | None = None


@router.post("/limits", response={202: Taken}, summary="Trace a module for its speed-of-light limit, without a session")
def ask(request: HttpRequest, asked: ModuleIn):
    """The module runs in the sandbox of an engine, as at the start of a session, and nowhere else."""
    requests.limit_text(asked.text, "The module")
    if not asked.text.strip():
        raise Refused(422, "There is no module yet.", "Paste class Model(nn.Module) and get_inputs().")
    sessions.limited(limits.readings, [limits.address(request)], "modules for a limit")
    row = modules.ask(limits.origin(request), asked.text)
    limits.guesses.right(limits.address(request), f"limit {row.id}")
    return Status(202, {"id": row.id})


@router.get("/limits/{reading_id}", response=Reading, summary="The limit of a module, once it is traced")
def read(request: HttpRequest, reading_id: str, gpu: str = "h200", classes: Query[list[Class]] = CLASSES):
    row, address = _row(request, reading_id), limits.address(request)
    if checks := modules.checks_of(row):
        sessions.limited(limits.checks, [address], "limits", calls=checks)
    try:
        return modules.look(row, gpu, tuple(c for c in get_args(Class) if c in classes) or CLASSES)
    except HardwareError as e:
        raise Refused(422, str(e), "Choose one of these.") from e


@router.delete("/limits/{reading_id}", response={204: None}, summary="Stop the tracing and forget the module")
def cancel(request: HttpRequest, reading_id: str):
    row = _row(request, reading_id)
    if row.answered is None:  # an answer may serve others with the same text
        desk.cancel(row)
    return HttpResponse(status=204)


def _row(request: HttpRequest, reading_id: str) -> Description:
    """The module of an id, which only its sender knows. Raises Refused."""
    rows = Description.objects.filter(kind=modules.KIND, id=reading_id)
    row = limits.guesses.look(limits.address(request), f"limit {reading_id}", rows.first)
    if row is None:
        raise Refused(404, "There is no such module.", "Modules are kept for a quarter of an hour. Send it again.")
    return row
