"""Control tokens: whoever has one owns the session. 192 random bits, so a plain SHA-256 of it is safe to keep."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from playground.models import Session


def new() -> tuple[str, str]:
    """A token and the hash to keep. The token has both cases, which is what playground.access.redaction knows it by."""
    while True:
        token = secrets.token_urlsafe(24)
        if token not in (token.lower(), token.upper()):
            return token, digest(token)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def owns(session: Session, token: str) -> bool:
    """Compared in constant time. A session without a hash (a recording) has no owner."""
    return bool(session.control_hash) and hmac.compare_digest(session.control_hash, digest(token))
