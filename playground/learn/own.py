"""What /learn/own shows in a reader's language: how a lesson is written, and an example to begin with."""

from __future__ import annotations

import functools

from django.utils import translation
from django.utils.translation import gettext

from playground.learn import facts, figures, shelf
from playground.learn.exam import bank
from playground.learn.writing import markdown


@functools.cache
def guide(language: str = "en") -> str:
    """How a lesson is written, as safe HTML: the form (playground/lessons/README.md), the figures' lines, the functions
    and the skills."""
    rows = [facts.use(name) for name in sorted(facts.FUNCTIONS)]
    titles = {skill: variant.title for (skill, _), variant in bank.variants(language).items()}
    lines, about = _figures()
    with translation.override(language):
        functions = _table(gettext("function"), gettext("what it gives"), [(f"`{u}`", gettext(g)) for u, g in rows])
        skills = _table(
            gettext("skill"), gettext("what a room's test asks"), [(f"`{s}`", t) for s, t in titles.items()]
        )
        parts = [form(language), gettext("The lines of each figure:"), lines, gettext(about), functions, skills]
    return markdown.unfilled("\n\n".join(parts))


def form(language: str = "en") -> str:
    """The form of a lesson, as Markdown."""
    if language != "en":
        return _text("README", language).partition("\n")[2].strip()
    text = _text("README", language)
    return text[text.index("## The form") : text.index("## In Python")].partition("\n")[2].strip()


def example(language: str = "en") -> str:
    """A lesson of two steps without a mistake."""
    return _text("example", language)


def _text(name: str, language: str) -> str:
    path = shelf.FOLDER / (f"{name}.md" if language == "en" else f"{name}.{language}.md")
    return path.read_text(encoding="utf-8")


def _figures() -> tuple[str, str]:
    """The lines of each figure as an indented block, and the paragraph after them."""
    text = (figures.__doc__ or "").partition("KIND is one of:\n")[2].strip("\n")
    lines, _, about = text.partition("\n\n")
    return lines, " ".join(about.split())


def _table(left: str, right: str, rows: list[tuple[str, str]]) -> str:
    """A table as Markdown; its first column is code."""
    return "\n".join([f"| {left} | {right} |", "|---|---|", *(f"| `{code}` | {text} |" for code, text in rows)])
