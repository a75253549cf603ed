"""Tools that only read: the language, its error codes, a check of a program, examples and devices."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from pydantic import Field

from dsl.diagnostics import closest
from engine.session.spec import CLASSES
from playground import engines
from playground.access import limits, sessions
from playground.access.answers import Refused
from playground.language import examples, reference, service
from playground.mcp import kernels, programs
from playground.mcp.calls import find
from playground.mcp.fitting import fit_of
from playground.mcp.following import Following
from playground.mcp.tool import A_SESSION, MOST_TEXT, Answer, Arguments, Call, Tool
from playground.models import Session

RESULTS = """time.kind: measured (on a GPU, alternating with PyTorch) or predicted (by a model of an H200; nothing ran
on a GPU). Never compare the two.
precision_class: f32, tf32, f16, bf16 or fp8: the type of the operands of the matrix products; sums stay in float32. A
class is compared with PyTorch in the same class. `guard f32` with f16 operands is of class tf32.
limit_ms: the speed of light, the least time that the hardware allows for the module in a class. gap_to_limit: time over
limit; 1.0 is perfect.
when_judged: what was said when the trial ended ("the best so far" means then). now: how it stands at this moment.
speedup: PyTorch's time over yours. verdict: clean and minor count; gaming, library only and unverified do not.
outcome: counted (a result), flagged (the verdict does not count), verified or unverified (a kernel without a time),
failed (the candidate is wrong), undecided (the machine failed: propose it again), stopped.
"""
OWN = {
    "kernels": ("Raw kernels: CUDA C++ and Python", kernels.KERNELS),
    "results": ("How to read a trial's result", RESULTS),
}


class ReferenceIn(Arguments):
    section: str = Field("", max_length=64, description="A section's name; empty: the whole language and all names")


async def _reference(call: Call, asked: ReferenceIn) -> Answer:
    parts = {slug: (title, text.strip()) for slug, title, text in reference.texts()} | OWN
    names = {slug: title for slug, (title, _) in parts.items()}
    if asked.section:
        if asked.section not in parts:
            near = closest(asked.section, parts)
            fix = f"The sections are {', '.join(parts)}." + (f" Did you mean {near}?" if near else "")
            raise Refused(404, f"There is no section {asked.section!r}.", fix)
        return Answer({}, [parts[asked.section]])
    whole = "\n\n".join(f"## {title}\n{text}" for slug, (title, text) in parts.items() if slug not in OWN)
    if len(whole) > MOST_TEXT:
        return Answer({"sections": names}, [parts["program"]])
    return Answer({"sections": names}, [("The language μCUTLASS", whole)])


class ErrorPageIn(Arguments):
    code: str = Field(max_length=64, description="An error code such as E204, or a word of the language such as tile")


async def _error_page(call: Call, asked: ErrorPageIn) -> Answer:
    page = await sync_to_async(service.explain)(asked.code.strip())
    if page is None:
        near = reference.near(asked.code)
        fix = f"Did you mean {near}?" if near else "reference() has the language."
        raise Refused(404, f"There is no code or word {asked.code!r}.", fix)
    programs = [(name, page[name]) for name in ("example", "fix") if page.get(name)]
    return Answer({k: v for k, v in page.items() if k not in ("example", "fix")}, programs)


class CheckIn(Arguments):
    program: str = Field(description="The text of a μCUTLASS program")
    session: str = Field("", max_length=400, description=f"{A_SESSION}: check against its module too")


async def _check(call: Call, asked: CheckIn) -> Answer:
    sessions.limited(limits.checks, call.caller.keys, "checks")
    return await sync_to_async(_checked)(call, asked)


def _checked(call: Call, asked: CheckIn) -> Answer:
    session = find(call, asked.session) if asked.session else None
    answer = programs.checked(asked.program)
    if session is None or not answer.data["ok"]:
        return answer
    fit = fit_of(Following(session.id).read(), session, asked.program)
    return Answer({**answer.data, "in_the_session": fit.to_json()}, answer.texts)


class ExampleIn(Arguments):
    name: str = Field("", max_length=64, description="The name of an example; empty: the list of names")


async def _example(call: Call, asked: ExampleIn) -> Answer:
    rows = {row["id"]: row for row in await sync_to_async(examples.all_examples)()}
    if not asked.name:
        return Answer(
            {
                "described": {i: r["title"].partition(" (suite59")[0] for i, r in rows.items() if r["featured"]},
                "more_programs": _names(rows, "program"),
                "more_modules": _names(rows, "module"),
            }
        )
    row = rows.get(asked.name)
    if row is None:
        near = closest(asked.name, rows)
        fix = f"Did you mean {near}?" if near else "example() lists them."
        raise Refused(404, f"There is no example {asked.name!r}.", fix)
    kernel = [(f"A plain CUDA kernel that computes {row['id']}", row["kernel"])] if row["kernel"] else []
    return Answer({}, [(f"{row['id']} ({row['kind']})", row["text"]), *kernel])


def _names(rows: dict[str, dict[str, Any]], kind: str) -> str:
    """The names of the examples of a kind that have no description in the list."""
    return " ".join(i for i, r in rows.items() if r["kind"] == kind and not r["featured"])


class NoArguments(Arguments):
    pass


async def _devices(call: Call, asked: NoArguments) -> Answer:
    return await sync_to_async(_devices_now)()


def _devices_now() -> Answer:
    running = [
        {
            "serves": e.serves,
            "device": e.device.get("title") or e.device.get("name"),
            "times": e.device.get("kind"),
            "raw_kernels": kernels.on(e.device.get("kind")),
            "sessions": e.sessions,
        }
        for e in engines.alive()
    ]
    return Answer(
        {
            "engines": running or "none runs now: sessions wait until one is started (make run)",
            "sessions_waiting": Session.objects.filter(state=Session.QUEUED).count(),
            "device_values": "auto (what the engine has), cuda (a real GPU, measured), modelled:h200 (a prediction)",
            "precision_classes": list(CLASSES),
            "note": "start_session tries what you propose, and nothing else. A person starts a search on the web page.",
        }
    )


TOOLS = [
    Tool(
        "reference", "Language reference",
        "Read the reference of μCUTLASS, the small language in which you write GPU kernels here (matrix products, "
        "convolutions, and element-wise work fused into their epilogues; for NVIDIA Hopper). Read it before you write "
        "a program. Section 'kernels' explains raw CUDA and Python kernels, 'results' explains verdicts, classes and "
        "gaps.",
        ReferenceIn, _reference,
    ),
    Tool(
        "error_page", "Explain an error code",
        "Explain an error code of a rejected program (E204) or a word of the language (tile): why the rule exists, a "
        "program that breaks it, and one that does not.",
        ErrorPageIn, _error_page,
    ),
    Tool(
        "check_program", "Check a program",
        "Check a μCUTLASS program: every mistake with its line, column and a tested fix; or, if it "
        "is valid, the program with every automatic choice made, its precision class, the back end that builds it "
        "(cute or cpp, and which choice of yours rules cute out), and a predicted time on an H200, stage by stage. It "
        "costs no trial, and takes no raw kernels. With a session it also says whether the program's class, parameters "
        "and results fit the session's module or a region of it.",
        CheckIn, _check,
    ),
    Tool(
        "example", "Examples",
        "Read example programs of the language and example PyTorch modules, by name; without a name, list them.",
        ExampleIn, _example,
    ),
    Tool(
        "devices", "Devices",
        "List the engines that run now with their devices (measured on a GPU or predicted), what they do with raw "
        "kernels, how many sessions wait, and the precision classes.",
        NoArguments, _devices,
    ),
]  # fmt: skip
