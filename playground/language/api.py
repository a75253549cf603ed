"""The language over HTTP: check, format, resolve, compile, explain, complete and hover, for an editor or a script.

A text has at most UCUTLASS_SOURCE_KIB; the language reads at most 65,536 characters and 2,048 words, so every answer
takes a bounded time: milliseconds for a usual program, a second for the largest.
"""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dsl.editor import vocabulary
from playground import exports
from playground.access import limits, requests
from playground.access.answers import Refused, too_many
from playground.language import service as language
from playground.openapi.forms import not_json
from playground.words import tokens, writer

router = Router(tags=["language"])


class TextIn(Schema):
    text: str = Field(description="A μCUTLASS program")


class PlaceIn(Schema):
    """A place in a text, 1-based. Columns count characters (Unicode code points); the caret is before `col`."""

    text: str
    line: int
    col: int


class Fix(Schema):
    """An edit that was tested and removes the mistake: replace a range by `text`. `title` describes it in a few
    words."""

    title: str
    line: int
    col: int
    end_line: int
    end_col: int
    text: str


class Diagnostic(Schema):
    """Why a program is rejected, and where: 1-based, the end exclusive; line 0: the whole text."""

    code: str = Field(description="stable, such as E204; its page is /language/E204")
    message: str
    line: int
    col: int
    end_line: int
    end_col: int
    notes: list[str]
    help: str | None = Field(description="the nearest way out, in words")
    fix: Fix | None = Field(description="the same as an edit, if a working one was found")
    rendered: str = Field(description="the message with its caret, as a terminal shows it")


class Judged(Schema):
    ok: bool
    diagnostics: list[Diagnostic] = Field(description="every mistake, in the order of the text")


class Laid(Judged):
    text: str | None = Field(description="null if the program is rejected")


class Prediction(Schema):
    """A prediction by a model of tiles, waves and memory; never a measurement."""

    kind: str
    ms: float
    device: str
    bound_by: str
    stages: list[dict]
    notes: list[str]


class Checked(Laid):
    resolved: str | None = Field(description="the program with every choice made")
    prediction: Prediction | None


class Generated(Schema):
    text: str
    binding: str = Field(description="a Python module that runs it on PyTorch tensors")
    language: str = Field(description="python | cuda")
    lines: int
    line_map: list[tuple[int, int, int]] = Field(description="line of `resolved`, first and last line of `text`")


class Refusal(Schema):
    code: str
    message: str
    help: str | None


class Compiled(Checked):
    digest: str | None
    sources: dict[str, Generated] = Field(description="by back end: cute, cpp")
    refused: dict[str, Refusal] = Field(description="a back end that cannot express the program, and why")
    figures: dict


class Option(Schema):
    label: str
    kind: str = Field(description="keyword, stage, clause, function, type, value, axis or name")
    doc: str


class Options(Schema):
    start: int = Field(description="start column of the word that a label replaces")
    options: list[Option]


class Page(Schema):
    """The page of an error code, or of a back end's refusal."""

    code: str
    title: str
    why: str
    example: str
    fix: str
    wrong: str = Field(description="a whole program with this error and no other one; empty for a refusal")
    right: str = Field(description="the same program, repaired; empty for a refusal")


class Word(Schema):
    """A word of the language or, with `kind` name, of a program; its `use` is then its type."""

    word: str
    kind: str
    use: str
    doc: str
    values: list[str]


class Hovered(Word):
    line: int
    col: int
    end_line: int
    end_col: int


class WordsIn(Schema):
    text: str = Field(description="What the module computes, in English")


class NotUnderstood(Schema):
    text: str = Field(description="the words; `line` and `col` are 1-based")
    line: int
    col: int
    fix: str = Field("", description="the way out, where there is a certain one")


class FromWords(Schema):
    """A module for the reader to confirm. Nothing runs before it is sent to /api/sessions."""

    module: str = Field(description="a PyTorch module: class Model, get_inputs, get_init_inputs")
    understood: list[str]
    assumed: list[str] = Field(description="what the description left out")
    not_understood: list[NotUnderstood]
    by: Literal["rules"] = Field(description="what read the words")


def _admit(request: HttpRequest, text: str, limit: limits.Limit, what: str, name: str = "The program") -> None:
    """Raise Refused for a text that is too long, or an address that asks too often."""
    requests.limit_text(text, name)
    if wait := limit.wait(limits.address(request)):
        raise too_many(what, wait)


@router.post("/check", response=Checked, summary="Check a program: every mistake, and the text with every choice made")
def check(request: HttpRequest, asked: TextIn):
    _admit(request, asked.text, limits.checks, "checks")
    return language.check(asked.text)


@router.post("/format", response=Laid, summary="Format a program and keep its comments")
def format_(request: HttpRequest, asked: TextIn):
    _admit(request, asked.text, limits.checks, "checks")
    return language.format_(asked.text)


@router.post("/resolve", response=Laid, summary="The program with every choice made")
def resolve(request: HttpRequest, asked: TextIn):
    _admit(request, asked.text, limits.checks, "checks")
    return language.resolve(asked.text)


@router.post("/compile", response=Compiled, summary="Generate code: both back ends, line maps, a model's prediction")
def compile_(request: HttpRequest, asked: TextIn):
    _admit(request, asked.text, limits.checks, "compilations")
    return language.compile_(asked.text)


@router.post(
    "/export", summary="A zip of the program: both sources, a PyTorch package for pip, a check",
    openapi_extra=not_json("application/zip"),
)  # fmt: skip
def export(request: HttpRequest, asked: TextIn):
    """`application/zip`; the same program gives the same bytes."""
    _admit(request, asked.text, limits.checks, "exports")
    try:
        return exports.response(exports.of_text(asked.text))
    except exports.ExportError as e:
        raise Refused(422, str(e).split("\n")[0], "Check the program first; /api/check says what is wrong.") from None


@router.post("/complete", response=Options, summary="What is valid at a place: words, names, legal values")
def complete(request: HttpRequest, asked: PlaceIn):
    _admit(request, asked.text, limits.assists, "completions")
    return language.complete(asked.text, asked.line, asked.col)


@router.post("/hover", response=Hovered | None, summary="Help for the word at a place; null if there is none")
def hover(request: HttpRequest, asked: PlaceIn):
    _admit(request, asked.text, limits.assists, "questions")
    return language.hover(asked.text, asked.line, asked.col)


@router.get("/explain", response=Page | Word, summary="The page of an error code (E204) or of a word (tile)")
def explain(request: HttpRequest, word: str = Query(max_length=64)):
    page = language.explain(word)
    if page is None:
        raise Refused(
            404, f"There is no code or word {word!r}.", "The words are at /api/words, the codes at /language."
        )
    return page


@router.get("/words", response=dict[str, list[str]], summary="Every word of the language by kind, for a highlighter")
def words(request: HttpRequest):
    return vocabulary.vocabulary()


@router.post("/words", response=FromWords, summary="Write a PyTorch module from a description in English")
def write(request: HttpRequest, asked: WordsIn):
    """The same description always gives the same module. A refusal names the words that were not understood."""
    _admit(request, asked.text, limits.checks, "descriptions", "The description")
    try:
        return writer.write(asked.text).to_json() | {"by": "rules"}
    except tokens.Unclear as e:
        raise Refused(422, str(e), e.fix, not_understood=e.places) from None
