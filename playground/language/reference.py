"""dsl/reference.md, the error codes and the words of the language as pages. The language provides the texts.

`reference()` renders the subset of Markdown that the reference uses (headings, paragraphs, lists, fences, code, bold).
Anything else would appear unrendered, and a test keeps the file within that subset.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dsl
from dsl.check.families import FAMILIES
from dsl.check.program import check
from dsl.codes import CODES, Page
from dsl.codes import page as page_of
from dsl.diagnostics import closest
from dsl.editor.vocabulary import ENTRIES, Entry, vocabulary

SOURCE = Path(dsl.__file__).parent / "reference.md"
# The groups of the codes, by their first digit.
GROUPS = {
    "0": "The text",
    "1": "Names, shapes and types",
    "2": "Configuration: tiles, shared memory, clusters, schedules",
    "3": "Expressions",
    "4": "The pipeline",
}
LINKED = ("keyword", "stage", "clause", "function", "value", "type")
_CODE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)|(?P<number>\d+(?:x\d+)+\b|\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<word>[A-Za-z_]\w*)", re.IGNORECASE
)


@dataclass(frozen=True)
class Section:
    slug: str
    title: str
    html: str


@functools.cache
def reference() -> tuple[Section, ...]:
    """The reference as HTML, one section per heading; the first is the text above the first `##`."""
    return tuple(Section(slug, title, _blocks(text)) for slug, title, text in texts())


@functools.cache
def texts() -> tuple[tuple[str, str, str], ...]:
    """The sections of the reference as they are written: (slug, title, Markdown)."""
    parts = re.split(r"^## (.+)$", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = [("program", "A program", re.sub(r"^# .+\n", "", parts[0]))]
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        sections.append((re.sub(r"[^a-z0-9]+", "-", title.split("(")[0].lower()).strip("-"), title, text))
    return tuple(sections)


def codes() -> list[dict[str, Any]]:
    """[{title, codes: [Page]}], by the group that a code's first digit names."""
    return [{"title": t, "codes": [p for c, p in CODES.items() if c[1] == d]} for d, t in GROUPS.items()]


def code_page(code: str) -> dict[str, Any] | None:
    """The page of a code with its neighbours and its texts in colour, or None.

    `programs`: for an error its wrong program, with the message of the checker, and the repaired one.
    """
    page = page_of(code)
    if page is None:
        return None
    names = list(CODES)
    at = names.index(page.code) if page.code in CODES else None
    return {
        "page": page,
        "why": _inline(page.why),
        "example": highlight(page.example),
        "fix": highlight(page.fix),
        "programs": _programs(page) if page.wrong else [],
        "before": CODES[names[at - 1]] if at else None,
        "after": CODES[names[at + 1]] if at is not None and at + 1 < len(names) else None,
    }


def _programs(page: Page) -> list[dict[str, str]]:
    """[{kind, title, text, address, message}] of an error's wrong program and of its repair."""
    wrong, right = page.wrong.splitlines(), page.right.splitlines()
    same = SequenceMatcher(None, wrong, right, autojunk=False).get_matching_blocks()
    message = "\n\n".join(d.render(page.wrong) for d in check(page.wrong).diagnostics)
    return [
        {
            "kind": "wrong",
            "title": "A program with this error",
            "text": _marked(wrong, {i for m in same for i in range(m.a, m.a + m.size)}),
            "address": in_editor(page.wrong),
            "message": message,
        },
        {
            "kind": "right",
            "title": "The same program, repaired",
            "text": _marked(right, {i for m in same for i in range(m.b, m.b + m.size)}),
            "address": in_editor(page.right),
            "message": "",
        },
    ]


def _marked(lines: list[str], same: set[int]) -> str:
    """Lines in colour, with marks around those that the other program does not have."""
    html = [highlight(line) for line in lines]
    return "\n".join(line if i in same else f"<mark>{line}</mark>" for i, line in enumerate(html))


def in_editor(program: str) -> str:
    """The address that opens a program in the playground's editor."""
    return f"/#program={quote(program)}"


def word_page(word: str) -> dict[str, Any] | None:
    """Every sense of a word, or None: its entry, its syntax, its values, and the stages that have it as a clause."""
    senses = [e for (_, w), e in ENTRIES.items() if w == word]
    return {"word": word, "senses": [_sense(e) for e in senses]} if senses else None


def _sense(e: Entry) -> dict[str, Any]:
    of = [word for word, family in FAMILIES.items() if e.kind == "clause" and e.word in family.clauses]
    label = "clauses" if e.kind == "stage" else "values"
    known = {w for _, w in ENTRIES}
    return {
        "entry": e,
        "doc": _inline(e.doc),
        "use": highlight(e.use),
        "label": label,
        "values": [(v, v if v in known else None) for v in e.values],
        "stages": of,
    }


def near(word: str) -> str | None:
    """The code or word that a misspelled one probably meant."""
    return closest(word.upper(), CODES) or closest(word, {w for _, w in ENTRIES})


# ---- text to HTML ----


def _blocks(text: str) -> str:
    out: list[str] = []
    for i, part in enumerate(re.split(r"^```\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        out += [_fence(part)] if i % 2 else [_block(b) for b in re.split(r"\n{2,}|\n(?=- )", part) if b.strip()]
    html = "\n".join(out)
    return re.sub(r"(?:<li>.*?</li>\n?)+", lambda m: f"<ul>{m.group()}</ul>", html, flags=re.DOTALL)


def _block(text: str) -> str:
    text = " ".join(line.strip() for line in text.strip().splitlines())
    return f"<li>{_inline(text[2:])}</li>" if text.startswith("- ") else f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    """Render code, linking each piece that begins with a word of the language to its page, and bold text."""

    def one(m: re.Match) -> str:
        if m[2]:
            return f"<strong>{escape(m[2])}</strong>"
        code = f"<code>{escape(m[1])}</code>"
        word = re.match(r"[A-Za-z_]\w*", m[1])
        known = word and any((kind, word.group()) in ENTRIES for kind in LINKED)
        return f'<a class="word" href="/language/{word.group()}">{code}</a>' if known else code

    out, at = [], 0
    for m in _CODE.finditer(text):
        out += [escape(text[at : m.start()]), one(m)]
        at = m.end()
    return "".join([*out, escape(text[at:])])


def _fence(text: str) -> str:
    """A block of code. Each valid program in it is separate, with a link that opens it in the editor."""
    out = []
    for part in re.split(r"\n(?=\S*program )", text.strip("\n")):
        code = part.strip("\n")
        link = ""
        if code.startswith("program ") and check(code).ok:
            link = f'<a class="try" href="{in_editor(code)}">Open in the editor</a>'
        plain = "" if code.startswith("program ") else " plain"  # lists of words may break anywhere
        out.append(f'<div class="listing{plain}">{link}<pre tabindex="0"><code>{highlight(code)}</code></pre></div>')
    return "\n".join(out)


@functools.cache
def _kinds() -> dict[str, str]:
    """{word: the class of its colour}; a word of two kinds has the first one's."""
    words = vocabulary()
    order = (
        ("keyword", ("let", "also", "program", "return")), ("meta", ("acc", "acc2")), ("property", words["clauses"]),
        ("function", words["stages"] + words["functions"]), ("type", words["types"]), ("number", words["values"]),
        ("property", words["keywords"]),
    )  # fmt: skip
    kinds: dict[str, str] = {}
    for kind, some in order:
        for word in some:
            kinds.setdefault(word, kind)
    return kinds


def highlight(code: str) -> str:
    """A program's text as HTML, in the colours of the editor (static/js/language/ucutlass-mode.js)."""
    out, at = [], 0
    for m in _TOKEN.finditer(code):
        kind, text = m.lastgroup, m.group()
        if kind == "word":
            kind = _kinds().get(text)
        out.append(escape(code[at : m.start()]))
        out.append(f'<span class="syn-{kind}">{escape(text)}</span>' if kind else escape(text))
        at = m.end()
    return "".join([*out, escape(code[at:])])
