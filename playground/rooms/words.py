"""The words of a student's pages in a reader's language, by Django's translations (playground/rooms/locale).

The teacher's wall and the refusals of the API are in English.
"""

from __future__ import annotations

from django.utils import translation
from django.utils.translation import gettext, gettext_noop

from playground.learn import words as of_lessons

# Keys of static/js/rooms -> English words. Names in braces are filled in by the page.
SCRIPT = {
    "stored": gettext_noop("Your answer is stored. What is right is said after the lessons."),
    "read_text": gettext_noop("The text of this step"),
    "test_before": gettext_noop("Test before"),
    "test_after": gettext_noop("Test after"),
    "answered": gettext_noop("{done} of {all}"),
    "unsent": gettext_noop("{n} answers are not sent yet. This page keeps trying."),
    "not_valid": gettext_noop("Your seat is not valid any more. Join again."),
    "was_reset": gettext_noop("Your teacher reset this seat. Join again."),
    "deleted": gettext_noop("This room was deleted."),
    "ended": gettext_noop("Your teacher ended this room. Your answers are kept."),
    "too_late": gettext_noop("The deadline was {time}. The room takes no more answers."),
    "paused": gettext_noop("Your teacher paused the room. You can read on; answers wait."),
    "hint_of_teacher": gettext_noop("Hint of your teacher"),
    "no_time_yet": gettext_noop("no time yet"),
    "times_limit": gettext_noop("{gap} times the limit ({kind})"),
    "session": gettext_noop("{state}, {trials} trials, best: {gap}."),
    "open_session": gettext_noop("Open the session"),
    "queued": gettext_noop("queued"),
    "running": gettext_noop("running"),
    "is_ended": gettext_noop("ended"),
    "connecting": gettext_noop("Connecting"),
    "live": gettext_noop("Live"),
    "reconnecting": gettext_noop("Reconnecting"),
    "refused": gettext_noop("Ended"),
    "missing": gettext_noop("Gone"),
}
# What the templates say (room.html, workshops.html), so that a test finds each of them here.
PAGE = (
    gettext_noop("Workshops"),
    gettext_noop("Learn together how fast a GPU can be. A teacher opens a room; students join it with its code."),
    gettext_noop("Join a room"),
    gettext_noop("Code of the room"),
    gettext_noop("Join"),
    gettext_noop("Open a room"),
    gettext_noop(
        "Choose lessons, show the code on the projector, and see how every student gets on. You need no account."
    ),
    gettext_noop("Nickname"),
    gettext_noop("Your teacher and the projector may show it. It is deleted with the room."),
    gettext_noop("Room"),
    gettext_noop("Leave the seat"),
    gettext_noop("Parts of the room"),
    gettext_noop("Lesson"),
    gettext_noop("Optimise a module of your own"),
    gettext_noop("Start from"),
    gettext_noop("PyTorch module"),
    gettext_noop("Run"),
)


def words(language: str) -> dict[str, str]:
    """The words of the lessons and of a room, for the page's scripts."""
    with translation.override(language):
        return of_lessons.words(language) | {key: gettext(text) for key, text in SCRIPT.items()}
