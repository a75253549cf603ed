"""A trial of a session, or a program that was typed, as a zip to take to a GPU machine.

Everything in it is text that is here already or generated anew from the program (engine.export); nothing is built.
"""

from __future__ import annotations

from django.http import HttpResponse

from engine.export import ExportError, archive, history, package
from playground.models import Blob, Session, SessionEvent

__all__ = ["ExportError", "of_text", "of_trial", "response"]


def of_trial(session: Session, trial: int | None) -> dict[str, str]:
    """{path: text} of a trial (the best one without a number). Raises ExportError where there is none."""
    rows = SessionEvent.objects.filter(session=session).order_by("seq").values_list("kind", "data")
    return package.files(history.of_trial(rows.iterator(), _text, trial))


def of_text(program: str) -> dict[str, str]:
    """{path: text} of a program by itself. Raises ExportError where it is rejected."""
    return package.files(history.of_program(program))


def response(files: dict[str, str]) -> HttpResponse:
    """The zip as a download, named as the folder in it."""
    made = HttpResponse(archive(files), content_type="application/zip")
    made["Content-Disposition"] = f'attachment; filename="{next(iter(files)).partition("/")[0]}.zip"'
    return made


def _text(name: str) -> str | None:
    found = Blob.objects.filter(sha256=name).first()
    return found.text if found else None
