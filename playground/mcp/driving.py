"""Tools that drive a session: propose, wait, look, stop. Whoever has the link of its page watches live."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from asgiref.sync import sync_to_async
from pydantic import Field

from playground import engines, profiles
from playground.access import sessions
from playground.access.answers import Refused
from playground.access.tries import LONGEST_CHANGE, form_of
from playground.live import log
from playground.mcp import kernels
from playground.mcp.calls import LOOK, find, owned, waits, why_waiting
from playground.mcp.fitting import must_fit
from playground.mcp.following import Following
from playground.mcp.programs import must_be_valid
from playground.mcp.tool import A_SESSION, Answer, Arguments, Call, Tool
from playground.mcp.trials import described, row_of, summary
from playground.models import Session

SHOWN = 40  # trials in a status
STOP = 3.0  # seconds that a stop waits for the end
PROPOSE = 20.0  # seconds that a proposal beside another search may wait for its number


class ProposeIn(Arguments):
    session: str = Field(max_length=400, description=A_SESSION)
    candidate: str = Field(description="The whole text of a μCUTLASS program or of a raw kernel")
    language: Literal["", "program", "cuda", "python"] = Field(
        "", description="What the text is; empty: recognised by the text"
    )
    change: str = Field(
        "", max_length=LONGEST_CHANGE, description="One line for people who watch: what is new in it, and why"
    )
    precision_class: Literal["", "f32", "tf32", "f16", "bf16"] = Field(
        "", description="Of a raw kernel: the class that it declares. Programs state it by their types"
    )
    entry: str = Field("", max_length=80, description="Of a raw kernel: the name to call, if not the usual one")


async def _propose(call: Call, asked: ProposeIn) -> Answer:
    session = await sync_to_async(owned)(call, asked.session)
    data: dict[str, Any] = {"program": asked.candidate, "change": asked.change}
    if asked.language == "program":
        data["form"] = "program"
    elif asked.language:
        data |= {"form": "kernel", "language": asked.language}
    data |= {"cls": asked.precision_class} if asked.precision_class else {}
    data |= {"entry": asked.entry} if asked.entry else {}
    following, warning = Following(session.id), ""
    form, language = form_of(data)
    if form == "kernel":
        warning = await sync_to_async(lambda: kernels.warning(session, following.read().view, language))()
    else:
        await sync_to_async(must_be_valid)(asked.candidate)
        await sync_to_async(lambda: must_fit(following.read(), session, asked.candidate))()
    command = await sync_to_async(sessions.command)(session, "try", data)
    trial = await sync_to_async(_trial_of)(following, session, command.number)
    until = time.monotonic() + PROPOSE
    while trial is None and time.monotonic() < until and following.view.end is None:
        await asyncio.sleep(LOOK)
        trial = await sync_to_async(_trial_of)(following, session, command.number)
    waits = "The session is paused by its owner: the trial begins when it is resumed." if command.waits else ""
    then = "Call status(session) for its number."
    if trial is not None:
        then = f"Call wait_for_trial(session, trial={trial})."
    answer = {"trial": trial, "waits": waits, "next": then, "page": call.link(session.id)}
    return Answer(answer | ({"warning": warning} if warning else {}))


def _trial_of(following: Following, session: Session, number: int) -> int | None:
    """The trial of a candidate. In a session of the strategy agent every candidate becomes a trial, in order."""
    known = following.read().trial_of.get(number)
    return number if known is None and session.spec.get("strategy") == "agent" else known


class WaitIn(Arguments):
    session: str = Field(max_length=400, description=A_SESSION)
    trial: int = Field(ge=1, description="The number that propose returned")
    timeout_s: float = Field(45, ge=0, le=120, description="Return after so many seconds even if it still runs")


async def _wait(call: Call, asked: WaitIn) -> Answer:
    async with waits(call):
        session = await sync_to_async(find)(call, asked.session)
        following, until = Following(session.id), time.monotonic() + asked.timeout_s
        while True:
            view = (await sync_to_async(following.read)()).view
            trial = view.trials.get(asked.trial)
            if trial is None and view.end is None:
                await sync_to_async(_must_come)(following, session, asked.trial)
            if view.end is not None or (trial is not None and trial.ended) or time.monotonic() >= until:
                break
            await asyncio.sleep(LOOK)
        if trial is not None:
            answer = await sync_to_async(described)(following, trial, view.device)
            doing = view.progress.text if view.progress is not None and not trial.ended else None
            return Answer({**answer.data, "doing": doing}, answer.texts)
        if view.end is not None:
            reason = f"The session ended before trial {asked.trial} began: {view.end.reason}"
            raise Refused(409, reason, "Start another session, with a larger budget if that was spent.")
        doing = await why_waiting(session.id)
        return Answer({"trial": asked.trial, "state": "waiting", "doing": doing, "session": summary(view)})


def _must_come(following: Following, session: Session, number: int) -> None:
    """Raise Refused(404) for a trial that no candidate becomes. Only the agent strategy makes no trials of its own."""
    if session.spec.get("strategy") != "agent":
        return
    known = max(session.commands.filter(kind="try").count(), 0, *following.view.trials)
    if number > known:
        error = f"There is no trial {number}. Trials so far: {known}."
        raise Refused(404, error, "Call propose: its answer has the number of the trial.")


class ProfileIn(Arguments):
    session: str = Field(max_length=400, description=A_SESSION)
    trial: int = Field(ge=1, description="The number of a trial that has a time, or that still runs")


async def _profile(call: Call, asked: ProfileIn) -> Answer:
    session = await sync_to_async(owned)(call, asked.session)
    following, until = Following(session.id), time.monotonic() + PROPOSE

    def asked_for() -> float | None:
        """Ask, unless the log has the profile or the session ended. The time of the last answer."""
        trial = following.read().view.trials.get(asked.trial)
        known = trial.profile if trial is not None else None
        if session.state != Session.ENDED and (known is None or known.state == "refused"):
            sessions.command(session, "profile", {"trial": asked.trial})
        return known.t if known is not None else None

    before = await sync_to_async(asked_for)()
    async with waits(call):
        while time.monotonic() < until:
            view = (await sync_to_async(following.read)()).view
            known = view.trials[asked.trial].profile if asked.trial in view.trials else None
            answered = known is not None and (known.state == "ready" or known.t not in (None, before))
            if answered or view.end is not None:
                break
            await asyncio.sleep(LOOK)
    answer = await sync_to_async(_profiled)(session.id, asked.trial)
    text = answer.pop("text")
    answer.pop("t", None)  # for the page, which shows when it was made
    return Answer(answer, [(f"Profile of trial {asked.trial}", text)] if text else [])


def _profiled(session_id: str, trial: int) -> dict[str, Any]:
    """The profile, or that it is being made."""
    session = Session.objects.get(id=session_id)
    known = log.view(session_id).trials.get(trial)
    if session.state != Session.ENDED and known is not None and known.profile is None:
        return {"trial": trial, "state": "asked", "text": "", "next": "Call profile again in a while."}
    answer = profiles.of(session, trial)
    return answer | ({"next": "Call profile again in a while."} if answer["state"] == "asked" else {})


class SessionIn(Arguments):
    session: str = Field(max_length=400, description=A_SESSION)


async def _best(call: Call, asked: SessionIn) -> Answer:
    return await sync_to_async(_best_now)(call, asked.session)


def _best_now(call: Call, name: str) -> Answer:
    session = find(call, name)
    following = Following(session.id).read()
    trial = following.view.shown
    if trial is None:
        return Answer({"best": "none yet: no trial has a time that counts", "session": summary(following.view)})
    answer = described(following, trial, following.view.device)
    faster = following.view.headline is not None
    note = "" if faster else "No trial is faster than PyTorch; this one came closest, and PyTorch stays."
    data = {"faster_than_pytorch": faster, "note": note, **answer.data, "best_by_class": following.view.best}
    return Answer(data, [("Its text", following.blob(trial.program))])


async def _status(call: Call, asked: SessionIn) -> Answer:
    return await sync_to_async(_status_now)(call, asked.session)


def _status_now(call: Call, name: str) -> Answer:
    session = find(call, name)
    view = Following(session.id).read().view
    message = engines.state_message(session)
    return Answer(
        {
            "session": session.id,
            "title": session.title,
            "page": call.link(session.id),
            **summary(view),
            "doing": message["text"] or (view.progress.text if view.progress and view.end is None else None),
            "device": view.device.get("title") or view.device.get("name"),
            "times_are": view.device.get("kind"),
            "classes": view.classes,
            "limits_ms": view.bounds,
            "pytorch_ms": {b.name: b.ms for b in view.baselines},
            "candidates_waiting": session.commands.filter(kind="try", handled=None).count(),
            "trials": [row_of(t) for t in list(view.trials.values())[-SHOWN:]],
        }
    )


async def _stop(call: Call, asked: SessionIn) -> Answer:
    def stop() -> tuple[Session, bool]:
        """The session, and whether it had ended already."""
        session = owned(call, asked.session)
        if session.state == Session.ENDED:
            return session, True
        sessions.command(session, "stop", {})
        return session, False

    session, before = await sync_to_async(stop)()
    page = call.link(session.id)
    if before:
        return Answer({"ended": True, "text": "It had ended already.", "page": page})
    until = time.monotonic() + STOP
    while not (ended := await sync_to_async(_has_ended)(session.id)) and time.monotonic() < until:
        await asyncio.sleep(LOOK)
    text = "It ended" if ended else "Its engine is still at work on a step and ends it after that"
    return Answer({"ended": ended, "text": f"{text}; its trials stay on its page.", "page": page})


def _has_ended(session_id: str) -> bool:
    return Session.objects.filter(id=session_id, state=Session.ENDED).exists()


TOOLS = [
    Tool(
        "propose", "Propose a candidate",
        "Hand in a candidate for the session's module: a μCUTLASS program (usually best) or a raw kernel in "
        "CUDA C++ or Python. A program that check_program(program, session) rejects is refused at once and costs no "
        "trial; everything else becomes a trial. Returns the trial's number at once; "
        "wait_for_trial has the result. A program must have the parameters and results of the programs in the report.",
        ProposeIn, _propose, owner=True, reads=False,
    ),
    Tool(
        "wait_for_trial", "Wait for a trial",
        "Wait until a trial has ended and read its result: verdict, time with PyTorch's time beside it, measured or "
        "predicted, speedup, gap to the hardware's limit, or the mistakes with their lines; the compiler's registers, "
        "shared memory and spills; and advice on what to try next. If it still runs after timeout_s, call again.",
        WaitIn, _wait,
    ),
    Tool(
        "profile", "Profile of a trial",
        "Read where the time of a trial goes: what a profiler measured, or else the compiler's resources and each "
        "stage's time by the model of the GPU; `source` says which. Costs no trial. People who watch see it too.",
        ProfileIn, _profile, owner=True, reads=False,
    ),
    Tool(
        "best", "Best so far",
        "Read the best trial of a session and its text: the fastest that is right and honest. Where none is faster "
        "than PyTorch, it is the one that came closest, and `faster_than_pytorch` is false.",
        SessionIn, _best,
    ),
    Tool(
        "status", "Status of a session",
        "Read a session's state, budget, limits, PyTorch's times and its trials in one line each (the last 40).",
        SessionIn, _status,
    ),
    Tool(
        "stop", "Stop a session",
        "End a session of yours. Its trials and its page stay. Stop when you are near the limit or out of ideas.",
        SessionIn, _stop, owner=True, reads=False, ends=True,
    ),
]  # fmt: skip
