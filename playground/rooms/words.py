"""The words of a room's pages in a reader's language, by Django's translations (playground/rooms/locale).

Those of the teacher's scripts, and the refusals, are in texts.py.
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
# What the templates say (base, workshops, room, room_new and wall.html), so that a test finds each of them here.
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
    gettext_noop("Skip to content"),
    gettext_noop("Pages"),
    gettext_noop("Playground"),
    gettext_noop("Gallery"),
    gettext_noop("My sessions"),
    gettext_noop("Theme"),
    gettext_noop("QR code of the room"),
    gettext_noop("Wall of room"),
    gettext_noop("This is a teacher's wall"),
    gettext_noop("Open the teacher's link of this room. It was shown when the room was opened."),
    gettext_noop("Seats that answered this step"),
    gettext_noop("Only this machine can open the address above. The README says how to start the app for a network."),
    gettext_noop("Controls of the room"),
    gettext_noop("Projected seat"),
    gettext_noop("Seats"),
    gettext_noop("Nobody has joined yet. Show the code or the QR code on the projector."),
    gettext_noop("What moved between the two tests"),
    gettext_noop(
        "Students join with a code and a nickname. You get a teacher's link, which shows every answer as it comes."
    ),
    gettext_noop("Only this machine can open this address."),
    gettext_noop(
        "For students in the same network, open this page at the address of this machine, after this start of the app:"
    ),
    gettext_noop("Title"),
    gettext_noop("Speed of light, Monday morning"),
    gettext_noop("Lessons"),
    gettext_noop("Your own lessons"),
    gettext_noop("Markdown files. The form is shown on the page that checks a lesson."),
    gettext_noop("Files"),
    gettext_noop("Pace"),
    gettext_noop("Students go at their own pace"),
    gettext_noop("I open each step for all"),
    gettext_noop("Test"),
    gettext_noop("Ask the questions of the lessons before and after, and report what moved"),
    gettext_noop("Seats at most"),
    gettext_noop("Deadline, for homework (your local time; may stay empty)"),
    gettext_noop("Open the room"),
)


def words(language: str) -> dict[str, str]:
    """The words of the lessons and of a room, for the page's scripts."""
    with translation.override(language):
        return of_lessons.words(language) | {key: gettext(text) for key, text in SCRIPT.items()}
