"""Titles of sessions: a whole first sentence or nothing, never a cut text.

The functions take time linear in the length of the text, because a visitor chooses the text and the web process waits.
"""

from __future__ import annotations

from html import escape

LONGEST = 100  # characters of a title, for one line of a card or a list
LOOKED_AT = 2_000  # characters: a longer first sentence is no title


def first_sentence(text: str) -> str:
    """The first sentence of a docstring or comment, without its full stop, or "" if it is too long for a title.

    A sentence may span several lines. It ends at a full stop before a space, at a blank line, or at the end of the
    text.
    """
    paragraph: list[str] = []
    for line in text[:LOOKED_AT].strip().splitlines():
        words = shown(line).strip(" \t#-=")
        if not words:
            if paragraph:
                break
            continue
        paragraph.append(words)
    joined = " ".join(" ".join(paragraph).split())
    sentence = joined.partition(". ")[0].rstrip(".:")
    return sentence if len(sentence) <= LONGEST else ""


def shown(text: str) -> str:
    """The text without what cannot be seen, such as characters that turn the direction of what follows."""
    return "".join(c if c.isprintable() else " " for c in text)


def in_markdown(title: str) -> str:
    """A title for a Markdown file, in which a visitor's `<` would begin HTML."""
    return escape(title, quote=False)


def opening_text(source: str) -> str:
    """The docstring or block of comments at the start of a source; "" if there is neither."""
    text = source.lstrip()
    docstring = text[1:] if text[:1] in ("r", "R") else text
    if (quotes := docstring[:3]) in ('"""', "'''"):
        return docstring[3:].partition(quotes)[0]
    comments = []
    for line in text[:LOOKED_AT].splitlines():
        if not line.lstrip().startswith("#"):
            break
        comments.append(line.strip().lstrip("#"))
    return "\n".join(comments)
