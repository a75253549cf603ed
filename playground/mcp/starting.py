"""Tools that start a session, and read the speed-of-light report of a module or of a session."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from asgiref.sync import sync_to_async
from pydantic import Field

from engine.session.fold.reduce import View
from engine.session.spec import BadSpec, Class, SessionSpec, SpecFields
from playground import engines
from playground.access import requests, sessions
from playground.access.answers import Refused
from playground.mcp import reported
from playground.mcp.calls import LOOK, find, waits, why_waiting
from playground.mcp.following import Following, Start
from playground.mcp.tool import A_SESSION, Answer, Arguments, Call, Tool, must_own
from playground.models import Session

REPORT = 100.0  # seconds that a report may take
REPORT_ALONE = "This session was for the report and has ended. To try candidates, call start_session with the module."
# Steps (events.Progress) at which the programs to start from, which come after the report, are not there yet.
BEFORE = ("", "trace", "wait", "place")


SOURCE = (
    "as in KernelBench: Python that defines class Model(nn.Module), get_inputs() and, if Model takes arguments, "
    "get_init_inputs(). It runs in a sandbox without network"
)


class ModuleIn(Arguments):
    module: str = Field(description=f"The source of the PyTorch module to optimise, {SOURCE}")
    device: str = Field("auto", description="auto, cuda (measured) or modelled:h200 (predicted)")
    classes: list[Class] = Field(
        ["tf32", "f16"], description="Precision classes that a candidate may use; fewer bits are faster"
    )


class StartIn(ModuleIn):
    title: str = Field("", max_length=200, description="A name for the session, shown on its page")
    trials: int = Field(40, ge=1, description="The budget: how many candidates you may propose")


async def _start(call: Call, asked: StartIn) -> Answer:
    must_own(call)
    fields = {"source": asked.module, "device": asked.device, "classes": asked.classes, "trials": asked.trials}
    session = await sync_to_async(_begin)(call, {**fields, "title": asked.title})
    message = await sync_to_async(engines.state_message)(session)
    return Answer(
        {
            "session": session.id,
            "page": call.link(session.id),
            "state": message["text"] or message["state"],
            "next": "Call report(session) for the limits and for programs to start from, then propose candidates. Tell "
            "the person that the page shows everything live.",
        }
    )


def _begin(call: Call, fields: dict[str, Any]) -> Session:
    try:
        spec = SessionSpec(**{**fields, "strategy": "agent"})
    except BadSpec as e:
        raise requests.refusal_of(e) from None
    return sessions.start(call.caller, SpecFields(**spec.to_dict()))[0]


class ReportIn(Arguments):
    session: str = Field("", max_length=400, description=f"{A_SESSION}: its report. Give this or a module")
    module: str = Field("", description=f"The source of a PyTorch module, {SOURCE}. Needs an owner token")
    device: str = Field("auto", description="Of a module: auto, cuda or modelled:h200")
    classes: list[Class] = Field(["tf32", "f16"], description="Of a module: the precision classes to report on")


async def _report(call: Call, asked: ReportIn) -> Answer:
    if bool(asked.session) == bool(asked.module.strip()):
        raise Refused(422, "Give a session or a module.", "report(session=ID), or report(module=SOURCE).")
    async with waits(call):
        if asked.session:
            session = await sync_to_async(find)(call, asked.session)
            return await _reported(call, session)
        must_own(call)
        fields = {"source": asked.module, "device": asked.device, "classes": asked.classes, "trials": 1}
        session = await sync_to_async(_begin)(call, fields)
        try:
            answer = await _reported(call, session)
            return Answer({**answer.data, "next": REPORT_ALONE}, answer.texts)
        finally:  # also if the client has gone
            await asyncio.shield(asyncio.ensure_future(sync_to_async(_end)(session.id)))


def _end(session_id: str) -> None:
    """Stop a session that was started for its report alone."""
    session = Session.objects.filter(id=session_id).first()
    if session is not None and session.state != Session.ENDED:
        sessions.command(session, "stop", {}, {"reported": True})


async def _reported(call: Call, session: Session) -> Answer:
    following, until = Following(session.id), time.monotonic() + REPORT
    while True:
        view = (await sync_to_async(following.read)()).view
        step = view.progress.step if view.progress is not None else ""
        if view.end is not None or (view.report and (view.baselines or view.trials or step not in BEFORE)):
            break
        if time.monotonic() > until:
            raise Refused(
                503, f"The module was not traced within {REPORT:.0f} s: {await why_waiting(session.id)}",
                f"Call report(session={session.id!r}) later; the page is {call.link(session.id)}.",
            )  # fmt: skip
        await asyncio.sleep(LOOK)
    return await sync_to_async(_report_of)(call, following)


def _starts(following: Following) -> list[tuple[str, str]]:
    """(title, name of the text) of the programs to start from; one that serves several classes is one text."""
    alike: dict[tuple[str, int], list[Start]] = {}
    for start in following.starts:
        alike.setdefault((start.program, start.region), []).append(start)
    titled = []
    for (program, _), (first, *others) in alike.items():
        classes = " or ".join([first.cls, *(o.cls for o in others)])
        titled.append((first.text.replace(f" in {first.cls} ", f" in {classes} ", 1), program))
    return titled


def notes(view: View) -> list[str]:
    """What there is to know of the module, as the page has it above the session, and the remarks of its search."""
    return [*filter(None, [view.module_note]), *(n.text for n in view.notes if n.code != "start_from")]


def _report_of(call: Call, following: Following) -> Answer:
    view, report = following.view, following.report
    if report is None:
        reason = view.end.reason if view.end is not None else "it ended"
        at = f" (line {view.end.line})" if view.end is not None and view.end.line else ""
        raise Refused(422, f"The module is refused{at}: {reason}", "Change the module and call again.")
    data: dict[str, Any] = {"session": following.session_id, "page": call.link(following.session_id)}
    if view.coverage is not None:
        data["covered"] = view.coverage.text
        data["stays_in_pytorch"] = [{"op": u.op, "line": u.line, "why": u.why} for u in view.coverage.uncovered[:12]]
    data["notes"] = notes(view)
    texts = [("Speed-of-light report", reported.text(report, view.classes))]
    texts += [(title, following.blob(name)) for title, name in _starts(following)[:8]]
    if not following.starts:
        data["programs"] = "There is no program to start from: propose raw kernels (reference section kernels)."
    return Answer(data, texts)


TOOLS = [
    Tool(
        "report", "Speed-of-light report",
        "Get the speed-of-light report of a PyTorch module or of a session: the least time that the hardware allows "
        "in each precision class, PyTorch's time, which operation costs what, and the levers with predicted gains. "
        "With it come programs to start from, whose parameters and results a program of yours must have. If you will "
        "optimise the module, call start_session first and give its session here, so that the module is traced once.",
        ReportIn, _report,
    ),
    Tool(
        "start_session", "Start a session",
        "Start an optimisation session on a PyTorch module. You then propose candidates, and the engine checks, "
        "builds, verifies and times each against PyTorch. Returns the session's id and its page, where people watch "
        "live. The session stays open until its budget of trials is spent or you call stop.",
        StartIn, _start, owner=True, reads=False,
    ),
]  # fmt: skip
