"""A trial of a session, or a typed program, as a zip for a GPU machine.

All files are stored texts or are generated from the program (engine.export); nothing is built.
"""

from __future__ import annotations

from django.http import HttpResponse

from engine.export import ExportError, archive, history, package
from playground.models import Session, SessionEvent

__all__ = ["ExportError", "of_text", "of_trial", "response"]


def of_trial(session: Session, trial: int | None) -> dict[str, str]:
    """{path: text} of a trial (the best one without a number). Raises ExportError if there is none."""
    rows = SessionEvent.objects.filter(session=session).order_by("seq").values_list("kind", "data")
    return package.files(history.of_trial(rows.iterator(), lambda name: _text(session, name), trial))


def of_text(program: str) -> dict[str, str]:
    """{path: text} of a program without a session. Raises ExportError if it is rejected."""
    return package.files(history.of_program(program))


def response(files: dict[str, str]) -> HttpResponse:
    """The zip as a download, named like its folder."""
    download = HttpResponse(archive(files), content_type="application/zip")
    download["Content-Disposition"] = f'attachment; filename="{next(iter(files)).partition("/")[0]}.zip"'
    return download


def _text(session: Session, name: str) -> str | None:
    """A text that the session's link shows; the texts of a snapshot without its source are not among them."""
    text = session.blobs.filter(sha256=name).first()
    return text.text if text else None
