"""Prompts: Jinja2 templates beside this module, rendered from plain facts.

Text of a stranger (the pasted module, a program in a trial, a compiler's words) stands between two marks that hold a
token. The token is computed from the text, so no text can hold its own token, and a replay renders the same prompt.
Templates are files of this folder and its folders; no text of a person or a model is ever a template.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engine.llm.replies import Form, described

FOLDER = Path(__file__).parent
REFERENCE = Path(__file__).resolve().parents[3] / "dsl" / "reference.md"
MOST_FENCED = 60_000  # characters of one fenced text


def token(text: str) -> str:
    """The token of a fenced text: 16 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fence(text: str, what: str = "data") -> str:
    """The text between its marks, cut at `MOST_FENCED` characters."""
    text = text if len(text) <= MOST_FENCED else text[:MOST_FENCED] + "\n[cut]"
    mark = token(text)
    return f"<<<{what} {mark}\n{text.rstrip()}\n{mark} end>>>"


def clip(text: str, most: int) -> str:
    """One line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@cache
def reference() -> str:
    """The language reference, verbatim."""
    return REFERENCE.read_text()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"fence": fence, "clip": clip}
    return environment


def render(role: str, expects: type[Form], **facts: Any) -> str:
    """The prompt of a role (a template `role.j2`, in a folder for `folder/role`). `facts`: what the template names
    (engine.llm.prompts.facts). Raises jinja2.UndefinedError if one is missing."""
    template = _environment().get_template(f"{role}.j2")
    return template.render(role=role.rpartition("/")[2], reply=described(expects), form=expects.__name__, **facts)
