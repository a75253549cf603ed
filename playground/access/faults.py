"""Failures that are not a mistake of ours, as a refusal with the cause: 4xx for the request, 503 for the machine."""

from __future__ import annotations

import errno

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError

from playground.access.answers import Refused

BUSY, FULL = 2.0, 60.0  # seconds after which a request may succeed
# Errors of the operating system that pass without a change to the program: no space, no file descriptors, no memory.
_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_BUSY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO)
_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ)


def refusal_of(failure: BaseException) -> Refused | None:
    """The refusal for a failure of the request or of the machine; None for a mistake of ours."""
    if isinstance(failure, RequestDataTooBig):
        kib = settings.DATA_UPLOAD_MAX_MEMORY_SIZE >> 10
        return Refused(413, f"The request is over {kib} KiB.", "Paste only the module to optimise, without data.")
    if isinstance(failure, SuspiciousOperation):
        return Refused(400, "The request has a form that this server does not take.", "Use the page of this server.")
    if isinstance(failure, OperationalError | InterfaceError):
        return _database(str(failure).lower())
    if isinstance(failure, OSError) and failure.errno in _NAMES:
        return Refused(400, "The request has a name that is too long.", "Check the address.")
    if isinstance(failure, OSError) and failure.errno in _SPACE:
        return _full()
    if isinstance(failure, OSError) and failure.errno in _BUSY:
        return Refused(503, "The machine is out of files or memory.", "Try again in a moment.", wait=BUSY)
    return None


def _database(words: str) -> Refused:
    if "full" in words or "no space" in words or "readonly" in words or "read-only" in words:
        return _full()
    if "locked" in words or "busy" in words or "timeout" in words:
        error = "The database is busy with another write."
    else:
        error = "The database does not answer."
    return Refused(503, error, "Try again in a few seconds; sessions continue.", wait=BUSY)


def _full() -> Refused:
    fix = "Nothing that is stored is lost. Try again when whoever runs this server has made room."
    return Refused(503, "The server cannot write: its disk is full or read-only.", fix, wait=FULL)
