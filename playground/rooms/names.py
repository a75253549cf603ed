"""Names in a workshop: the code of a room, which people read aloud and type, and the nicknames of its seats."""

from __future__ import annotations

import re
import secrets
import unicodedata

from playground.access.answers import Refused

# Digits and capitals that no two people read or hear alike; without vowels, so that no code is a word.
ALPHABET = "2346789CDFGHJKMNPQRTVWXZ"
LENGTH = 6  # 24**6 = 191 million codes; an address that guesses is slowed to one in ten seconds (limits.guesses)
LONGEST = 24  # characters of a nickname
LONGEST_TITLE = 80
MARKS = 4  # on one letter: no script needs more, and a tower of them covers the seats beside it
# Letters and signs that fonts draw as nothing (Unicode: Default_Ignorable_Code_Point, and the empty Braille cell).
_EMPTY = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
_VARIANTS = re.compile("[\ufe00-\ufe0f]")  # they choose the form of the sign before them, such as an emoji's


def new_code() -> str:
    """A code of a room; the caller checks that no room has it."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def normal(code: str) -> str:
    """A code as it is stored: people type small letters, spaces and dashes."""
    return "".join(code.upper().replace("-", " ").split())


def nickname(text: str) -> str:
    """A nickname on one line, in Unicode's composed form. Raises Refused."""
    name = " ".join(unicodedata.normalize("NFC", text[: 10 * LONGEST]).split())
    if not name or not key_of(name):
        raise Refused(422, "A nickname has at least one character.", "Choose a nickname.", field="name")
    if len(name) > LONGEST or len(text) > 10 * LONGEST:
        raise Refused(422, f"A nickname has at most {LONGEST} characters.", "Choose a shorter one.", field="name")
    if not readable(name):
        error = "The nickname holds characters that cannot be seen."
        raise Refused(422, error, "Use letters, digits, spaces and signs.", field="name")
    marks = "".join("m" if unicodedata.category(c).startswith("M") else " " for c in name)
    if len(max(marks.split(), key=len, default="")) > MARKS:
        error = f"The nickname has more than {MARKS} marks on one letter."
        raise Refused(422, error, "Use letters, digits, spaces and signs.", field="name")
    return name


def key_of(name: str) -> str:
    """A nickname as it is compared: "Ada", "ADA" and their full-width forms are one name. "" for one that shows
    nothing."""
    return "".join(_VARIANTS.sub("", unicodedata.normalize("NFKC", name)).casefold().split())[:80]


def title(text: str) -> str:
    """The title of a room on one line. Raises Refused."""
    line = " ".join(text.split()) or "Workshop"
    if len(line) > LONGEST_TITLE or not readable(line):
        error = f"title: one line of at most {LONGEST_TITLE} characters that can be seen."
        raise Refused(422, error, "Write a short title.", field="title")
    return line


def readable(text: str) -> bool:
    """Return False for a text with controls, with signs that turn or hide what stands beside them, or with letters that
    show nothing."""
    return not _EMPTY.search(text) and not any(
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in text
    )
