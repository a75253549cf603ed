"""Control tokens: the holder of one controls the session. 192 random bits, so storing a plain SHA-256 is safe."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from playground.models import Session, Snapshot


def new() -> tuple[str, str]:
    """A token and the hash to store. The token has both cases, by which playground.access.redaction recognises it."""
    while True:
        token = secrets.token_urlsafe(24)
        if token not in (token.lower(), token.upper()):
            return token, digest(token)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def owns(session: Session | Snapshot, token: str) -> bool:
    """Compare in constant time. A session without a hash (a recording) has no owner."""
    return bool(session.control_hash) and hmac.compare_digest(session.control_hash, digest(token))
