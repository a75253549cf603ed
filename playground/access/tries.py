"""An owner's candidate: a program of the language, or a raw kernel, distinguished by its text.

A program is parsed here, and what cannot be parsed becomes no trial. Only regular expressions read the text of a kernel
(engine.session.kernel_text); it is parsed, loaded and run in the engine's sandbox.
"""

from __future__ import annotations

import re
from typing import Any

from dsl.syntax import ProgramError, parse
from engine.session.kernel_text import CLASSES, LANGUAGES, complaint, language_of
from engine.session.titles import shown
from playground.access.answers import Refused
from playground.access.requests import limit_text
from playground.models import Session

FORMS = ("program", "kernel")
FIELDS = ("program", "form", "language", "entry", "cls", "change")
LONGEST_CHANGE = 200  # characters
NAMES = {"program": "a μCUTLASS program", "cuda": "a CUDA C++ kernel", "python": "a Python kernel"}
LESS = "Paste only the kernel, without data and without the module."
EXAMPLE = 'Send {"kind": "try", "data": {"program": "..."}}; the form of it is at /api/docs.'


def try_of(session: Session, data: dict[str, Any]) -> dict[str, Any]:
    """The checked data of a `try`: {program} for a program, with form, language, entry and cls for a kernel, and
    `change` where one was given. Raises Refused with the fix."""
    if unknown := sorted(set(data) - set(FIELDS)):
        raise Refused(422, f"A try has no field {unknown[0][:40]!r}.", f"Its fields are {', '.join(FIELDS)}.")
    text = data.get("program")
    if not isinstance(text, str) or not text.strip():
        raise Refused(422, "There is no program or kernel to try.", EXAMPLE)
    change = change_of(data.get("change"))
    form, language = form_of(data)
    if form == "program":
        limit_text(text, "The program", "Paste only the program.")
        _parsed(text)
        return {"program": text} | change
    limit_text(text, "The kernel", LESS)
    if session.spec.get("source_kind") == "program":
        error = "This session is of a program, so there is no module to compare a kernel with."
        raise Refused(422, error, "Start a session of a PyTorch module, and try the kernel there.")
    entry = entry_of(data.get("entry"))
    problem = complaint(text, language, entry)
    if problem is not None:
        more = {"code": problem.code} | ({"example": problem.example} if problem.example else {})
        raise Refused(422, problem.reason, problem.fix, field="program", **more)
    cls = class_of(session, data.get("cls"))
    fields = {"program": text, "form": "kernel", "language": language} | ({"cls": cls} if cls else {})
    return fields | ({"entry": entry} if entry else {}) | change


def change_of(change: Any) -> dict[str, str]:
    """{change} on one line, {} without one. Raises Refused."""
    if not (change is None or isinstance(change, str)) or len(change or "") > LONGEST_CHANGE:
        error = f"change: a text of at most {LONGEST_CHANGE} characters."
        raise Refused(422, error, "Say in one line what is new in this candidate.", field="change")
    line = " ".join(shown(change or "").split())
    return {"change": line} if line else {}


def _parsed(text: str) -> None:
    """Raise Refused(400), with the line, for a text that is no program of the language: it can be no trial."""
    try:
        parse(text)
    except ProgramError as e:
        first = e.diagnostics[0]
        at = f"Line {first.span.line}: " if first.span.line else ""
        way_out = f"{first.help[:1].upper()}{first.help[1:]}." if first.help else "The language is at /language."
        more = {"code": first.code, "line": first.span.line, "diagnostics": [d.to_json() for d in e.diagnostics]}
        error = f"{at}this is no program of the language: {first.message}."
        raise Refused(400, error, way_out, field="program", **more) from None


def form_of(data: dict[str, Any]) -> tuple[str, str]:
    """(form, language) as given, else by the text. A text that matches neither is a program, and the language names its
    mistakes. Raises Refused."""
    form, language = data.get("form"), data.get("language")
    if form not in (None, *FORMS):
        raise Refused(422, f"form: one of {', '.join(FORMS)}.", "Leave it out: the text shows what it is.")
    if language not in (None, "", *LANGUAGES):
        raise Refused(422, f"language: one of {', '.join(LANGUAGES)}.", "Leave it out: the text shows what it is.")
    looks = language_of(data.get("program") or "")
    if form is None:
        form = "kernel" if language or looks in LANGUAGES else "program"
    if form == "program":
        return form, ""
    if not language and looks not in LANGUAGES:
        error = "The text does not show whether it is CUDA C++ or Python."
        raise Refused(422, error, 'Say "language": "cuda" or "language": "python".', field="language")
    return form, language or looks


def entry_of(entry: Any) -> str:
    """The name that the judge calls, "" for a usual one. It becomes part of a pattern, so its length is limited. Raises
    Refused."""
    if entry and not (isinstance(entry, str) and re.fullmatch(r"[A-Za-z_]\w{0,79}", entry, re.ASCII)):
        raise Refused(422, "entry: a name of at most 80 letters, digits and _.", "Leave it out for the usual entries.")
    return entry or ""


def classes(session: Session) -> list[str]:
    """Precision classes that a kernel may declare in a session: the allowed ones, and f32. Once the module has limits,
    only classes that have one: a module in f16 has none in tf32, and PyTorch no time to compare with."""
    allowed = [cls for cls in session.spec.get("classes", []) if cls in CLASSES]
    allowed = list(dict.fromkeys([*allowed, "f32"]))
    limits = session.summary.get("bounds") or {}
    return [cls for cls in allowed if not limits or cls in limits] or allowed


def class_of(session: Session, cls: Any) -> str:
    """The class of a kernel as given; "" if none is, for the engine, which knows the module, to choose
    (engine.strategies.problem.Prepared.kernel_class). Raises Refused."""
    if cls is None:
        return ""
    allowed = classes(session)
    if cls not in allowed:
        fix = f'Write for example "{allowed[0]}", or leave it out: the first class that has a limit is taken.'
        raise Refused(422, f"The precision class of a kernel here is one of {', '.join(allowed)}.", fix, field="cls")
    return cls


def looked_at(text: str, language: str = "", entry: str = "") -> dict[str, Any]:
    """The type of a text and its faults: {looks, name, language, error, fix, example, code}; `looks` program | cuda |
    python | "", and `language` the one that it was checked as."""
    looks = language_of(text)
    chosen = language or looks
    verdict = {"looks": looks, "name": NAMES.get(looks, ""), "language": chosen, "error": "", "fix": "", "example": ""}
    problem = complaint(text, chosen, entry) if chosen in LANGUAGES else None
    if problem is None:
        return {**verdict, "code": ""}
    return {**verdict, "error": problem.reason, "fix": problem.fix, "example": problem.example, "code": problem.code}
