"""Keep control tokens out of every log, because whoever reads a token controls its session.

A token reaches a log with the address of a request: in daphne's access log, and in Django's warnings about refused
requests. The visitor chooses the form, so no list of addresses can be complete. Three rules remove tokens: everything
after `/c/` is hidden, and so is every long word of mixed case, whatever surrounds it, and the name of a refused host,
which Django writes in lower case. A view link's name has 22 characters and stays: engines log it, and it allows only
reading.
"""

from __future__ import annotations

import functools
import logging
import re

TOKEN = 32  # characters of tokens.new
# Shorter than a token, so that a part of one is hidden too; longer than a view link's name.
_WORD = re.compile(r"[A-Za-z0-9_-]{24,}")
_CONTROL_PATH = re.compile(r"(?<![\w./-])/+c/+\S.*|(?<=//)([^\s/]+)/+c/+\S.*", re.IGNORECASE)
# A letter, a digit, `-`, `.`, `/` or `_` as a URL may write it, encoded any number of times: %41, %2541.
_ENCODED = re.compile(r"%(?:25)*(2[d-f]|3\d|[46][1-9a-f]|[57][0-9a]|5f)", re.IGNORECASE)
_HOST = re.compile(r"(Invalid HTTP_HOST header: ).*")
HIDDEN = "…"


def redact(text: str) -> str:
    """Return the text without control tokens. Linear in its length."""
    text = _ENCODED.sub(lambda m: chr(int(m[1], 16)), text)
    text = _CONTROL_PATH.sub(lambda m: f"{m[1] or ''}/c/{HIDDEN}", text)
    return _WORD.sub(_hide, _HOST.sub(rf"\g<1>{HIDDEN}", text))


def _hide(m: re.Match) -> str:
    """Hide a word that has both cases, as a token does (tokens.new). A SHA-256, a function of a traceback and a setting
    have one case."""
    word = m.group()
    return word if word in (word.lower(), word.upper()) else HIDDEN


class Formatter(logging.Formatter):
    """Formats a record as usual, its traceback too, and redacts the result. A request that Django refuses has one
    line."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name.startswith("django.security"):  # a stranger's request, of which a traceback of ours says nothing
            record = logging.makeLogRecord(vars(record) | {"exc_info": None, "exc_text": None})
        return redact(super().format(record))


def redact_access_log() -> None:
    """Redact the access log of the daphne that imports us. Does nothing under another server."""
    try:
        from daphne.access import AccessLogGenerator
    except ImportError:
        return
    write = AccessLogGenerator.write_entry
    if hasattr(write, "__wrapped__"):
        return

    @functools.wraps(write)
    def write_entry(self, host, date, request, *args, **kwargs):
        write(self, redact(str(host)), date, redact(request), *args, **kwargs)

    AccessLogGenerator.write_entry = write_entry
