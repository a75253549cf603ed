"""The gallery over HTTP: the recordings, two sessions side by side, the suite's problems."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from ninja import Query, Router, Schema

from playground.access import limits, sessions
from playground.access.answers import Refused
from playground.gallery import cards, compare, kernelbench, suite
from playground.gallery.sides import side
from playground.models import Session

router = Router(tags=["gallery"])
Fact = tuple[str, str]


class CardOut(Schema):
    """A recording (playground.gallery.cards). `why`: a sentence of those that are worth seeing first; `speedup`: empty
    if no program was faster than PyTorch; `share`: percent of the speed of light; `launches`: the start of kernels
    binds, so that no multiple of the limit is given; `rehearsed`: `command` needs a rehearsal to answer it."""

    id: str
    title: str
    about: str
    why: str
    device: str
    kind: str
    speedup: str
    against: str
    share: int | None
    launches: bool
    classes: list[str]
    facts: list[Fact]
    command: list[str]
    rehearsed: bool


class Recordings(Schema):
    recordings: list[CardOut]


class BestOut(Schema):
    number: int
    time: str
    interval: str
    speedup: str
    limit: str
    verdict: str
    evidence: list[Fact]
    change: str


class StepOut(Schema):
    number: int
    cls: str
    time: str
    speedup: str
    change: str


class SideOut(Schema):
    """`steps`: the trials that made a class faster; `best`: of the class that is compared; `program`: null if there is
    none, or if it is not shared."""

    id: str
    title: str
    kind: str
    facts: list[Fact]
    steps: list[StepOut]
    best: BestOut | None
    program: str | None


class ClassOut(Schema):
    """A precision class of both sessions. `ratio`: a sentence; "–" where the times may not be divided."""

    name: str
    bounds: tuple[str, str]
    bests: tuple[BestOut | None, BestOut | None]
    ratio: str


class Compared(Schema):
    """`reasons`: why no ratio is given; empty if each shared class has one."""

    a: SideOut
    b: SideOut
    reasons: list[str]
    rows: list[ClassOut]


class ProblemOut(Schema):
    """A problem in a class; of KernelBench without its `source`. `program`: {text, cls, backend, change, codes,
    refused}, null if none is right; `ways`, `limits`: PyTorch's times and the limits, by name."""

    name: str
    title: str
    source: str
    cls: str
    classes: list[str]
    facts: list[Fact]
    program: dict[str, Any] | None
    ways: list[Fact]
    limits: list[Fact]
    trials: list[dict[str, Any]]
    about: dict[str, str]


@router.get("/recordings", response=Recordings, summary="The recorded sessions of the gallery")
def recordings(request: HttpRequest):
    rows = Session.objects.filter(recorded=True).order_by("title")
    return {"recordings": [asdict(cards.card(session)) for session in rows]}


@router.get(
    "/comparisons", response=Compared, summary="Two sessions side by side, for whoever has the view links of both"
)
def comparison(
    request: HttpRequest,
    a: str = Query(..., max_length=400, description="a session's id or view link"),
    b: str = Query(..., max_length=400),
    cls: str = Query("", max_length=20, alias="class", description="of the programs; empty: a shared one"),
):
    names = compare.name_of(a), compare.name_of(b)
    if not all(names) or names[0] == names[1]:
        raise Refused(422, "Two different sessions are compared.", "Give the view links of two sessions as a and b.")
    address = limits.address(request)
    sessions.limited(limits.checks, [address], "comparisons")
    one, other = (side(letter, sessions.find(address, name)) for letter, name in zip("AB", names, strict=True))
    shown = compare.context(one, other, cls)
    texts = [one.program(shown["cls"]), other.program(shown["cls"])]
    return {"reasons": shown["reasons"], "rows": [_row(row) for row in shown["rows"]]} | {
        letter: {
            "id": each.session.id, "title": each.session.title, "kind": each.kind, "facts": each.facts,
            "steps": each.steps, "best": _best(best["best"]), "program": text,
        }
        for letter, each, best, text in zip("ab", (one, other), shown["bests"], texts, strict=True)
    }  # fmt: skip


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"bests": tuple(_best(best) for best in row["bests"])}


def _best(best: Any) -> dict[str, Any] | None:
    return None if best is None else asdict(best)


class SuiteOut(Schema):
    """`data`: the address of the whole table as JSON; `about`: on which machine and when it was measured."""

    problems: list[str]
    classes: list[str]
    about: str
    data: str


@router.get("/suite", response=SuiteOut, summary="The results of the suite: its problems and where the table is")
def results(request: HttpRequest):
    summary = suite.summary("")
    if summary is None:
        raise Refused(404, "No results are committed here.", "Run `python -m engine bench suite59` on a GPU.")
    return {
        "problems": suite.names(), "classes": [name for name, _ in summary["classes"]], "about": summary["about"],
        "data": static("data/bench.json"),
    }  # fmt: skip


@router.get("/suite/{name}", response=ProblemOut, summary="A problem of the suite: its best program and every trial")
def problem(request: HttpRequest, name: str, cls: str = Query("", max_length=20, alias="class")):
    shown = suite.problem(name, cls)
    if shown is None:
        raise Refused(404, f"The suite has no problem {name[:60]!r}.", "GET /api/suite lists them.")
    return asdict(shown)


@router.get("/kernelbench", response=SuiteOut, summary="The results on KernelBench: its problems and the table")
def kernelbenches(request: HttpRequest):
    results = kernelbench.published()
    if results is None:
        raise Refused(404, "No results are committed here.", "Run `python -m engine bench FOLDER` on a GPU.")
    return {
        "problems": [row["problem"] for row in results["rows"]], "classes": [results["cls"]],
        "about": suite.measured(results), "data": static("data/kernelbench.json"),
    }  # fmt: skip


@router.get(
    "/kernelbench/{path:name}", response=ProblemOut, summary="A problem of KernelBench: its program and every trial"
)
def kernelbench_problem(request: HttpRequest, name: str):
    shown = kernelbench.problem(name)
    if shown is None:
        raise Refused(404, f"KernelBench has no problem {name[:60]!r} here.", "GET /api/kernelbench lists them.")
    return asdict(shown)
