"""The JSON API, with its own page at /api/docs. Every error is {error, fix} with a fitting status."""

from __future__ import annotations

import logging
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from ninja import Header, Query, Schema, Status
from ninja.errors import HttpError, ValidationError
from pydantic import ConfigDict, Field

from engine.session.spec import SpecFields, strategies
from playground import engines, exports, figures, owner_api, profiles
from playground.access import faults, limits, owners, requests, sessions, tries, visitor_keys
from playground.access.answers import Refused, patient
from playground.access.bodies import FORM, BodyParser
from playground.gallery import api as gallery_api
from playground.language import api as language_api
from playground.language import examples
from playground.learn import api as learn_api
from playground.live import log
from playground.models import Session, SessionEvent
from playground.openapi import forms
from playground.openapi.described import Described
from playground.openapi.page import Page
from playground.reading import api as reading_api
from playground.rooms import api as rooms_api
from playground.sharing import api as sharing_api
from playground.words import api as words_api

logger = logging.getLogger(__name__)
NO_TEXT = "This session has no such text."


api = Described(
    title="μCUTLASS playground",
    version="1",
    description="Start a session, follow its log, read its texts; check and generate programs of the language, whose "
    "reference is at /language. Live events come over the WebSocket /ws/s/ID?after=SEQ, a workshop's over /ws/w/CODE.",
    urls_namespace="api",
    parser=BodyParser(),
    docs=Page(),
    docs_decorator=require_safe,
)
api.default_router.tags = ["sessions"]
api.add_router("", language_api.router)
api.add_router("", words_api.router)
api.add_router("", owner_api.router)
api.add_router("", reading_api.router)
api.add_router("", learn_api.router)
api.add_router("", rooms_api.router)
api.add_router("", sharing_api.router)
api.add_router("", gallery_api.router)


class TryIn(Schema):
    """A candidate of the owner: a μCUTLASS program, or a raw kernel that is compared with the session's module.

    A kernel runs only in the sandbox. In CUDA C++ it defines `extern "C" int run(const Tensor* in, int inputs, const
    Tensor* out, int outputs, cudaStream_t stream)`, in Python `class ModelNew(nn.Module)`, built and called as the
    module is, or `def kernel(*inputs, *parameters_and_buffers)`; Triton and CuTe DSL are Python.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    program: str = Field(description="the text of the program or kernel")
    form: Literal["program", "kernel"] | None = Field(None, description="omitted: derived from the text")
    language: Literal["cuda", "python"] | None = Field(None, description="of a kernel; omitted: derived from the text")
    entry: str = Field("", description="of a kernel: the name to call, if it is not a usual one")
    cls: Literal["f32", "tf32", "f16", "bf16"] | None = Field(
        None,
        description="of a kernel: the precision class that it declares and is compared in; one that the session allows,"
        " or f32. Omitted: the first that the session allows and the module has a limit in",
    )
    change: str = Field("", max_length=tries.LONGEST_CHANGE, description="one line: what is new in it")


class BudgetIn(Schema):
    """The changed fields of the budget."""

    model_config = ConfigDict(extra="forbid", strict=True)

    trials: int | None = None
    eps: float | None = None
    window: int | None = None


class ProfileIn(Schema):
    """The trial whose profile the engine makes, once the trial has ended."""

    model_config = ConfigDict(extra="forbid", strict=True)

    trial: int


class CommandIn(Schema):
    """`data`: of `try`, `budget` and `profile`; the other commands need none."""

    kind: Literal["pause", "resume", "stop", "budget", "try", "profile"]
    data: TryIn | BudgetIn | ProfileIn | dict[str, Any] = Field({})
    control_token: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """The data as it was sent. Its reader reports the mistakes."""
        return self.data if isinstance(self.data, dict) else self.data.dict(exclude_unset=True)


class TextIn(Schema):
    """`language`: check the text as cuda | python; "": as the text's own type."""

    text: str
    language: Literal["", "cuda", "python"] = ""
    entry: str = ""


class LookedAt(Schema):
    """The type of a text, before anything parses it. `looks`: program | cuda | python | "" if unknown; `name`: the same
    in words; `language`: the one that it was checked as. `error` and `fix`: why it cannot be tried as a kernel, with
    `code` empty | wrong_language | no_entry and a valid `example`; "" if no fault is visible.
    """

    looks: str
    name: str
    language: str
    error: str
    fix: str
    example: str
    code: str


@api.exception_handler(Refused)
def _refused(request: HttpRequest, e: Refused) -> HttpResponse:
    return patient(api.create_response(request, e.body, status=e.status), e.wait)


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, e: ValidationError) -> HttpResponse:
    first = e.errors[0]
    parts = [str(part) for part in first["loc"][1:] if part not in ("asked", "said", "data", "body")]
    if request.path.endswith("/sessions") and (refused := requests.invalid(request.body)) is not None:
        return api.create_response(request, refused.body, status=422)
    where = ".".join(parts)
    error = f"{where}: {first['msg']}." if where else "The body must be a JSON object."
    refusal = {"error": error, "fix": "The form of each request is at /api/docs."}
    return api.create_response(request, refusal, status=422)


@api.exception_handler(HttpError)
def _http(request: HttpRequest, e: HttpError) -> HttpResponse:
    if (refused := _cause(e.__cause__)) is not None:  # of the body
        return _refused(request, refused)
    refusal = {"error": f"{str(e).rstrip('.')}.", "fix": FORM}
    return api.create_response(request, refusal, status=e.status_code)


@api.exception_handler(Exception)
def _broken(request: HttpRequest, e: Exception) -> HttpResponse:
    if (refused := _cause(e)) is not None:
        if refused.status >= 500:
            logger.warning("%s %s: %s: %s", request.method, request.path, type(e).__name__, e)
        return _refused(request, refused)
    logger.exception("%s %s failed", request.method, request.path)
    refusal = {"error": "The server failed; the error is in its log.", "fix": "Try again; report it if it persists."}
    return api.create_response(request, refusal, status=500)


def _cause(e: BaseException | None) -> Refused | None:
    """The refusal that an exception is or stands for; None for a mistake of ours."""
    return e if isinstance(e, Refused) else faults.refusal_of(e) if e is not None else None


def find(request: HttpRequest, session_id: str) -> Session:
    """The session of a view link (playground.access.sessions.find)."""
    return sessions.find(limits.address(request), session_id)


@api.post(
    "/sessions",
    response={201: forms.SessionMade},
    summary="Start a session",
    description='With an owner token ("Authorization: Bearer TOKEN") the token controls the session too. `fork_of`: '
    "the session that the text came from, whose speedup the new one's page may name.",
)
def start(request: HttpRequest, asked: SpecFields, fork_of: str = Query("", max_length=40)):
    session, token = sessions.start(owners.caller(request), asked, fork_of=fork_of)
    return Status(201, sessions.links(request, session, token))


@api.get(
    "/sessions/{session_id}", response=forms.SessionOut, summary="A session: its request, its state, its best so far"
)
def show(request: HttpRequest, session_id: str):
    return describe(find(request, session_id))


@api.get("/sessions/{session_id}/events", summary="The log after a cursor")
def read_events(
    request: HttpRequest, session_id: str, after: int = Query(0, ge=0), limit: int = Query(500, ge=1, le=2000)
):
    session = find(request, session_id)
    rows = [e.row() for e in log.after(session_id, after, limit)]
    last = max(session.last_seq, rows[-1]["seq"] if rows else 0)
    reached = rows[-1]["seq"] if rows else after
    return {"events": rows, "last": last, "ended": session.state == Session.ENDED and reached >= last}


@api.post(
    "/sessions/{session_id}/commands",
    response={202: forms.Commanded},
    exclude_unset=True,
    summary="The owner's commands: pause, stop, budget, try, profile",
    description="The right comes from the control token, or from the owner token of the session in the header "
    "Authorization. The answer is {kind, ended}. That to a `try` or a `profile` of a paused session has `waits`: "
    "`paused`, too: it begins when the session resumes. The answer to a `profile` is the event trial.profiled.",
)
def command(request: HttpRequest, session_id: str, body: CommandIn, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token or body.control_token)
    return Status(202, sessions.command(session, body.kind, body.fields).to_json())


@api.post(
    "/sessions/{session_id}/key",
    response={202: dict[str, str]},
    summary="The owner's key for the endpoint that the session names",
    description="Only while an engine waits for it (event key.wanted). The right comes as for commands. The key is "
    "sealed for that engine and stored nowhere else; the answer is {endpoint}.",
    openapi_extra=visitor_keys.DESCRIBED,
)
def give_key(request: HttpRequest, session_id: str, x_control_token: str = Header("")):
    session = sessions.controlled(request, session_id, x_control_token)
    return Status(202, visitor_keys.take(request, session))


@api.post("/tries/check", response=LookedAt, summary="The type of a text to try, and its visible faults")
def look_at(request: HttpRequest, asked: TextIn):
    sessions.limited(limits.checks, [limits.address(request)], "checks")
    requests.limit_text(asked.text, "The kernel", tries.LESS)
    return tries.looked_at(asked.text, asked.language, tries.entry_of(asked.entry))


@api.get(
    "/sessions/{session_id}/blobs/{sha256}",
    summary="A text of a session by the SHA-256 of its bytes",
    openapi_extra=forms.not_json("text/plain"),
)
def blob(request: HttpRequest, session_id: str, sha256: str):
    session = find(request, session_id)
    rows = session.blobs.filter(sha256=sha256)
    cached = request.headers.get("If-None-Match") == f'"{sha256}"'
    text = rows.only("sha256").first() if cached else rows.first()
    if text is None:
        withheld = not session.provenance.get("shared", {}).get("source", True)
        error = "This text is not shared: its owner shares the results alone." if withheld else NO_TEXT
        raise Refused(404, error, "The names of its texts are in its events.")
    if cached:
        return HttpResponse(status=304)
    response = HttpResponse(text.text, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    response["ETag"] = f'"{sha256}"'
    return response


@api.get(
    "/sessions/{session_id}/trials/{trial}/profile",
    response=forms.ProfileOut,
    summary="The profile of a trial",
    description="Of a session that runs: the owner asks for it with the command `profile`. Of one that ended, without "
    "a request: the compiler's resources and the model of the GPU. `source` is profiler | model.",
)
def profile_of(request: HttpRequest, session_id: str, trial: int):
    return profiles.of(find(request, session_id), trial)


@api.get(
    "/sessions/{session_id}/export",
    summary="A trial for a GPU machine: program, sources, package, check",
    openapi_extra=forms.not_json("application/zip", "text/x-python", "application/x-ipynb+json"),
)
def export(
    request: HttpRequest,
    session_id: str,
    trial: int | None = Query(None, ge=1, description="by default the session's best"),
    form: Literal["zip", "modelnew", "notebook"] = Query("zip", alias="as"),
):
    session = find(request, session_id)
    sessions.limited(limits.checks, [limits.address(request)], "exports")
    try:
        return exports.zip_of(session, trial) if form == "zip" else exports.file_of(session, trial, form)
    except exports.ExportError as e:
        error = f"{str(e)[:1].upper()}{str(e)[1:].removesuffix('.')}."
        raise Refused(409, error, "Choose a trial with a right program.") from None


@api.get(
    "/figures/{session_id}",
    summary="Plotly figures of a session, each with its table: roofline, history, ...",
    openapi_extra=forms.FIGURES,
)
def figures_of(
    request: HttpRequest,
    session_id: str,
    trial: int | None = Query(None, ge=1, description="the trial whose time stages, shares and waterfall break down"),
    seq: int | None = Query(None, ge=0, description="the session at this event"),
    names: str = Query(",".join(figures.NAMES), description=f"a selection of {', '.join(figures.NAMES)}"),
):
    wanted = tuple(n for n in dict.fromkeys(names.split(",")) if n)
    if unknown := set(wanted) - set(figures.NAMES):
        raise Refused(
            422,
            f"There is no figure {min(unknown)[:40]!r}.",
            f"The figures are {', '.join(figures.NAMES)}.",
            field="names",
        )
    return figures.of(find(request, session_id), trial, wanted, seq)


class LimitOut(Schema):
    """`sentence`: "" before a trial has a time that counts."""

    sentence: str


@api.get(
    "/sessions/{session_id}/limit",
    response=LimitOut,
    summary="What limits the best program and what to try next, in one sentence",
)
def limit_of(
    request: HttpRequest,
    session_id: str,
    seq: int | None = Query(None, ge=0, description="the session at this event"),
):
    return {"sentence": figures.limit(find(request, session_id), seq)}


@api.get("/examples", response=forms.Examples, summary="Modules and programs to begin with")
def list_examples(request: HttpRequest):
    return {"examples": examples.all_examples()}


@api.get("/strategies", response=forms.Strategies, summary="The strategies of a session, with their options")
def list_strategies(request: HttpRequest):
    return {"strategies": strategies()}


@api.get("/engines", response=forms.Engines, summary="The engines that run now, and how many sessions wait")
def list_engines(request: HttpRequest):
    waiting = Session.objects.filter(state=Session.QUEUED).count()
    return {"engines": [engines.describe(e) for e in engines.alive()], "queued": waiting}


def describe(session: Session) -> dict[str, Any]:
    """A session for the page and the API, without anything that lets a reader control it."""
    return {
        "id": session.id,
        "title": session.title,
        "created": session.created.timestamp(),
        "ended": session.ended.timestamp() if session.ended else None,
        "spec": session.spec,
        "summary": session.summary,
        "last_seq": session.last_seq,
        "recorded": session.recorded,
        "provenance": session.provenance,
        **engines.state_message(session),
    }


def program_of(session: Session, trial: int) -> str | None:
    """The program of a trial as proposed; None if there is none, and for a raw kernel."""
    event = SessionEvent.objects.filter(session=session, kind="trial.proposed", data__trial=trial).first()
    if event is None or event.data.get("form") == "kernel":
        return None
    text = session.blobs.filter(sha256=event.data["program"]).first()
    return text.text if text else None
