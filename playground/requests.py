"""What a visitor may ask for, checked before it becomes a row: new sessions and the owner's words to them."""

from __future__ import annotations

import re
from typing import Any

from engine.spec import BadSpec, SessionSpec
from playground import conf
from playground.models import Session

COMMANDS = ("pause", "resume", "stop", "budget", "try")


class Refused(Exception):
    """A request that cannot be met: HTTP status, what is wrong, and what to do about it."""

    def __init__(self, status: int, error: str, fix: str, **more: Any):
        super().__init__(error)
        self.status, self.told = status, {"error": error, "fix": fix, **more}


def limit_text(text: str, what: str = "The source") -> None:
    """Raises Refused(413) for a text over UCUTLASS_SOURCE_KIB."""
    limit, size = conf.get("UCUTLASS_SOURCE_KIB"), len(text.encode(errors="surrogatepass"))
    if size > limit << 10:
        raise Refused(
            413,
            f"{what} is {size / 1024:.0f} KiB; the limit is {limit} KiB.",
            "Paste the module to optimise alone, without data or generated code.",
        )
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise Refused(422, f"{what} holds characters that are no text (NUL or a lone surrogate).", "Paste plain text.")


def spec_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The spec to store: checked by the engine's own rules, `device` as asked (`auto` is decided by who claims it)."""
    limit_text(asked["source"])
    most = conf.get("UCUTLASS_MAX_TRIALS")
    if asked["trials"] > most:
        raise Refused(422, f"A session here may ask for at most {most} trials.", f"Set trials to {most} or less.")
    asked = {**asked, "title": asked["title"].strip() or title_of(asked["source"], asked["source_kind"])}
    device = asked["device"]
    try:
        spec = SessionSpec(**{**asked, "device": "modelled:h200" if device == "auto" else device})
    except BadSpec as e:
        raise Refused(422, f"{e.field}: {e.message}.", f"Correct the field {e.field}.", field=e.field) from None
    return {
        "title": spec.title,
        "source": spec.source,
        "source_kind": spec.source_kind,
        "device": device,
        "strategy": spec.strategy,
        "classes": list(spec.classes),
        "trials": spec.trials,
        "eps": spec.eps,
        "window": spec.window,
        "seed": spec.seed,
    }


def title_of(source: str, kind: str) -> str:
    """A title for a text that has none: the first line of its docstring or comment, or its class."""
    docstring = re.match(r'\s*[rR]?("""|\'\'\')\s*(?P<line>[^\n]+?)\s*(?:\1|\n|$)', source)
    docstring = docstring or re.match(r"\s*#+\s*(?P<line>[^\n]+)", source)
    if docstring and docstring["line"].strip(" #-="):
        return docstring["line"].strip(" #-=").rstrip(".")[:120]
    if found := re.search(r"^class\s+(\w+)", source, re.MULTILINE):
        return found[1][:120]
    return "A PyTorch module" if kind == "module" else "A μCUTLASS program"


def command_of(session: Session, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The command's data, checked. Raises Refused with the fix."""
    if kind not in COMMANDS:
        raise Refused(422, f"{kind!r} is no command.", f"Send one of {', '.join(COMMANDS)}.")
    if session.state == Session.ENDED:
        raise Refused(409, "This session has ended.", "Fork it to go on from here.")
    if kind == "budget":
        return _budget(session, data)
    if kind == "try":
        program = data.get("program")
        if not isinstance(program, str) or not program.strip():
            raise Refused(422, "There is no program to try.", 'Send {"kind": "try", "data": {"program": "..."}}.')
        limit_text(program, "The program")
        return {"program": program}
    return {}


def _budget(session: Session, data: dict[str, Any]) -> dict[str, Any]:
    allowed = ("trials", "eps", "window")
    if not data or set(data) - set(allowed):
        raise Refused(422, "A budget has trials, eps and window.", 'Send for example {"data": {"trials": 40}}.')
    most = conf.get("UCUTLASS_MAX_TRIALS")
    if isinstance(data.get("trials"), int) and data["trials"] > most:
        raise Refused(422, f"A session here may have at most {most} trials.", f"Set trials to {most} or less.")
    try:
        SessionSpec("t", "x", **{name: data[name] for name in data})
    except BadSpec as e:
        raise Refused(422, f"{e.field}: {e.message}.", f"Correct the field {e.field}.", field=e.field) from None
    return dict(data)
