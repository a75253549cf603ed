"""Owner tokens: one bearer token controls every session that was started with it.

A coding agent sends its token in the header `Authorization: Bearer TOKEN`, never in an address, to the API and to /mcp.
A token belongs to a key. The browser on the page "My sessions" keeps the key, and the server shows each token once. The
key lists and revokes its tokens and controls their sessions; it starts none. Tokens and keys have the form of control
tokens (playground.access.tokens), so logs hide them, and the database stores only their hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from playground.access import limits, tokens
from playground.access.answers import Refused
from playground.models import OwnerToken, Session, Snapshot

MOST = 20  # tokens of one key that are not revoked
LONGEST = 80  # characters of a label
TOUCHED = timedelta(minutes=1)  # between two writes of `last_used`
MAKE_ONE = 'Make one on the page /mine, or with POST /api/tokens, and send it as "Authorization: Bearer TOKEN".'


@dataclass(frozen=True)
class Caller:
    """Who sends a request: the address that limits count, the origin that shares the queue, and the owner token."""

    address: str
    origin: str
    owner: OwnerToken | None = None

    @property
    def keys(self) -> list[str]:
        """What the limits count: the address and, if there is one, the token."""
        return [self.address, *([f"token {self.owner.id}"] if self.owner is not None else [])]


def caller(request: HttpRequest) -> Caller:
    """The sender of a request. Raises Refused(401) for an owner token that is not valid, and 429 for an address that
    guesses."""
    address = limits.address(request)
    return Caller(address, limits.origin(request), _bearer(address, request.headers.get("Authorization", "")))


def bearer(request: HttpRequest) -> OwnerToken | None:
    """The owner token of a request; None without an Authorization header. Raises Refused as `caller` does."""
    return _bearer(limits.address(request), request.headers.get("Authorization", ""))


def _bearer(address: str, header: str) -> OwnerToken | None:
    if not header:
        return None
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Refused(401, "The header Authorization holds no bearer token.", MAKE_ONE)
    owner = limits.guesses.look(
        address, f"owner {token}", lambda: _live().filter(token_hash=tokens.digest(token)).first()
    )
    if owner is None:
        raise Refused(401, "This owner token is not valid; it may have been revoked.", MAKE_ONE)
    if owner.last_used is None or owner.last_used < timezone.now() - TOUCHED:
        OwnerToken.objects.filter(id=owner.id).update(last_used=timezone.now())
    return owner


def _live():
    return OwnerToken.objects.filter(revoked=None)


def make(label: str, key: str = "") -> tuple[OwnerToken, str, str]:
    """A new token of a key, or of a new key: (row, token, key). Raises Refused for a key with too many tokens."""
    key = key or tokens.new()[0]
    key_hash = tokens.digest(key)
    token, token_hash = tokens.new()
    with transaction.atomic():
        if _live().filter(key_hash=key_hash).count() >= MOST:
            raise Refused(409, f"There are {MOST} tokens already.", "Revoke one that is not used any more.")
        row = OwnerToken.objects.create(token_hash=token_hash, key_hash=key_hash, label=label)
    return row, token, key


def of_key(address: str, key: str) -> list[OwnerToken]:
    """The tokens of a key, the newest first. Raises Refused(403) for a key without any."""
    rows = limits.guesses.look(
        address,
        f"key {key}",
        lambda: list(OwnerToken.objects.filter(key_hash=tokens.digest(key)).order_by("-created")) or None,
    )
    if rows is None:
        raise Refused(403, "This key has no tokens.", "Make a token first; the answer names its key.")
    return rows


def revoke(row: OwnerToken) -> None:
    """From now on nobody can use the token. Its sessions continue, and its key still controls them."""
    OwnerToken.objects.filter(id=row.id, revoked=None).update(revoked=timezone.now(), token_hash=None)


def controls(session: Session | Snapshot, secret: str) -> bool:
    """Return True if `secret` is the session's control token, its owner token, or the key of that."""
    if not secret:
        return False
    if tokens.owns(session, secret):
        return True
    owner = session.owner
    return owner is not None and tokens.digest(secret) in (owner.token_hash, owner.key_hash)


def forget() -> int:
    """Delete revoked tokens that no session names. Returns their number."""
    return OwnerToken.objects.filter(revoked__isnull=False, sessions=None).delete()[0]
