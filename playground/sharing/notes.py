"""The owner's notes, one a trial. The log does not hold them, because only an engine writes it; snapshots do."""

from __future__ import annotations

from django.utils import timezone

from engine.session.titles import shown
from playground.access.answers import Refused
from playground.models import Note, Session, SessionEvent

LONGEST = 2000  # characters


def of(session: Session) -> dict[int, str]:
    return dict(session.notes.values_list("trial", "text"))


def write(session: Session, trial: int, text: str) -> str:
    """Replace the note of a trial; an empty text removes it. Returns the text as it is kept. Raises Refused."""
    if hasattr(session, "snapshot"):
        raise Refused(409, "A snapshot does not change.", "Write to the session, then take another snapshot.")
    text = "\n".join(map(shown, text.splitlines())).strip()  # a note is read in terminals, too
    if len(text) > LONGEST:
        raise Refused(413, f"The note has {len(text):,} characters; the limit is {LONGEST:,}.", "Shorten it.")
    if not text:
        session.notes.filter(trial=trial).delete()
        return text
    if not SessionEvent.objects.filter(session=session, kind="trial.proposed", data__trial=trial).exists():
        raise Refused(404, f"There is no trial {trial}.", "A note belongs to a trial of the session.")
    Note.objects.update_or_create(session=session, trial=trial, defaults={"text": text, "changed": timezone.now()})
    return text


def copy(source: Session, target: Session) -> None:
    Note.objects.bulk_create([Note(session=target, trial=n.trial, text=n.text) for n in source.notes.all()])
