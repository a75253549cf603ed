"""A trial of a session, or a typed program, as a zip or a file for a GPU machine.

All files are stored texts or are generated from the program (engine.export); nothing is built.
"""

from __future__ import annotations

from django.http import HttpResponse

from engine.export import Exported, ExportError, archive, forms, history, package
from engine.export.composition import Whole
from playground.models import Session, SessionEvent

__all__ = ["ExportError", "file_of", "of_text", "response", "zip_of"]
FILES = {  # what `as` may be besides zip: (text, media type, ending)
    "modelnew": (forms.SINGLE[".py"], "text/x-python; charset=utf-8", "py"),
    "notebook": (forms.SINGLE[".ipynb"], "application/x-ipynb+json; charset=utf-8", "ipynb"),
}


def zip_of(session: Session, trial: int | None) -> HttpResponse:
    """The module with a trial's program (without a number the best) as a zip. Raises ExportError if there is none."""
    return response(forms.files(_exported(session, trial)))


def file_of(session: Session, trial: int | None, form: str) -> HttpResponse:
    """The same as one file: `form` is one of FILES. Raises ExportError."""
    if form not in FILES:
        raise ExportError(f"there is no export {form[:20]!r}; there are zip, {' and '.join(FILES)}")
    text, media, ending = FILES[form]
    download = HttpResponse(text(_exported(session, trial)), content_type=media)
    download["Content-Disposition"] = f'attachment; filename="model_new.{ending}"'
    return download


def _exported(session: Session, trial: int | None) -> Exported | Whole:
    rows = SessionEvent.objects.filter(session=session).order_by("seq").values_list("kind", "data")
    return history.of_session(rows.iterator(), lambda name: _text(session, name), trial)


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
