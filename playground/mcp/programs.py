"""The check of a program before it costs anything, for check_program and for propose."""

from __future__ import annotations

from typing import Any

from dsl.diagnostics import CONSEQUENCES
from dsl.rules.legal import BACKENDS
from engine.session.kernel_text import LANGUAGES, language_of
from playground.access import requests
from playground.access.answers import Refused
from playground.language import service
from playground.mcp import stages
from playground.mcp.tool import Answer

LISTED = 12  # mistakes in an answer


def checked(text: str) -> Answer:
    """The answer of check_program. Raises Refused for a text that is too long or no program."""
    requests.limit_text(text, "The program")
    language = language_of(text)
    if language in LANGUAGES:
        error = f"This text reads as {LANGUAGES[language]}. check_program checks only programs of μCUTLASS."
        raise Refused(422, error, "Hand a raw kernel to propose: reference(section='kernels') explains its form.")
    judged = service.check(text)
    if not judged["ok"]:
        return Answer({"ok": False, **_mistakes(judged)})
    p = judged["prediction"] or {}
    predicted = {k: p[k] for k in ("ms", "device", "bound_by") if k in p}
    data = {"ok": True, **_compiled(text), "predicted": predicted, **stages.listed(p.get("stages", []))}
    return Answer(data, [("The program with every choice made", judged["resolved"])])


def must_be_valid(text: str) -> None:
    """Raise Refused, with every mistake and its line, for a program that check_program rejects."""
    requests.limit_text(text, "The program", "Paste only the program.")
    judged = service.check(text)
    if judged["ok"]:
        _must_compile(text)
        return
    mistakes = _mistakes(judged)
    first = mistakes["diagnostics"][0]
    at = f"Line {first['line']}: " if first.get("line") else ""
    way_out = "Mend the program and propose it again, or call check_program until it is valid."
    error = f"{at}{first['message']} ({first['code']}). The program is not valid. It became no trial and cost nothing."
    raise Refused(422, error, way_out, field="candidate", **mistakes)


def _compiled(text: str) -> dict[str, Any]:
    """The precision class and the back end of a valid program, with the reason if it is not the first one."""
    compiled = service.compile_(text)
    backend = next((name for name in BACKENDS if name in compiled["sources"]), "")
    first = compiled["refused"].get(BACKENDS[0])
    classes = {"precision_class": compiled["class"], "limit_of_class": compiled["limit_class"]}
    if not backend:
        why = "; ".join(f"{name}: {_why(r)}" for name, r in compiled["refused"].items())
        return {**classes, "backend": f"none, so it cannot be built: {why}"}
    return {**classes, "backend": backend, f"why_not_{BACKENDS[0]}": _why(first) if first else None}


def _why(refused: dict[str, Any]) -> str:
    return refused["message"] + (f" (way out: {refused['help']})" if refused["help"] else "")


def _must_compile(text: str) -> None:
    """Raise Refused for a valid program that no back end writes."""
    compiled = service.compile_(text)
    if not compiled["sources"]:
        first = compiled["refused"][BACKENDS[0]]
        error = f"No back end writes this program: {first['message']}. It became no trial and cost nothing."
        raise Refused(422, error, f"{first['help'] or 'Write the stage another way'}.", field="candidate")


def _mistakes(judged: dict[str, Any]) -> dict[str, Any]:
    """{diagnostics, tested_fixes} of a rejected program, causes before their consequences."""
    first = sorted(judged["diagnostics"], key=lambda d: d["code"] in CONSEQUENCES)[:LISTED]
    rows = [{k: d[k] for k in ("code", "line", "col", "message", "notes", "help") if d.get(k)} for d in first]
    return {"diagnostics": rows, "tested_fixes": [d["fix"] for d in first if d["fix"]]}
