"""Names in a workshop: the code of a room, which people read aloud and type, and the nicknames of its seats."""

from __future__ import annotations

import secrets
import unicodedata

from playground.access.answers import Refused

# Digits and capitals that no two people read or hear alike; without vowels, so that no code is a word.
ALPHABET = "2346789CDFGHJKMNPQRTVWXZ"
LENGTH = 6  # 24**6 = 191 million codes; an address that guesses is slowed to one in ten seconds (limits.guesses)
LONGEST = 24  # characters of a nickname
LONGEST_TITLE = 80


def new_code() -> str:
    """A code of a room; the caller checks that no room has it."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def normal(code: str) -> str:
    """A code as it is stored: people type small letters, spaces and dashes."""
    return "".join(code.upper().replace("-", " ").split())


def nickname(text: str) -> str:
    """A nickname on one line, in Unicode's composed form. Raises Refused."""
    name = " ".join(unicodedata.normalize("NFC", text[: 10 * LONGEST]).split())
    if not name:
        raise Refused(422, "A nickname has at least one character.", "Choose a nickname.", field="name")
    if len(name) > LONGEST or len(text) > 10 * LONGEST:
        raise Refused(422, f"A nickname has at most {LONGEST} characters.", "Choose a shorter one.", field="name")
    if not readable(name):
        error = "The nickname holds characters that cannot be seen."
        raise Refused(422, error, "Use letters, digits, spaces and signs.", field="name")
    return name


def key_of(name: str) -> str:
    """A nickname as it is compared: "Ada", "ADA" and their full-width forms are one name."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())[:80]


def title(text: str) -> str:
    """The title of a room on one line. Raises Refused."""
    line = " ".join(text.split()) or "Workshop"
    if len(line) > LONGEST_TITLE or not readable(line):
        error = f"title: one line of at most {LONGEST_TITLE} characters that can be seen."
        raise Refused(422, error, "Write a short title.", field="title")
    return line


def readable(text: str) -> bool:
    """Return False for a text with controls, or with signs that turn or hide what stands beside them."""
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in text)
