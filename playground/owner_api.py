"""Owner tokens over HTTP: make, list and revoke. The page "My sessions" uses them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Header, Router, Schema, Status
from pydantic import ConfigDict, Field

from engine.session.titles import shown
from playground.access import limits, owners, sessions
from playground.access.answers import Refused
from playground.models import OwnerToken

router = Router(tags=["owner tokens"])
SHOWN = 50  # sessions of a token in the list, the newest


class TokenIn(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    label: str = Field("", max_length=owners.LONGEST, description="for the list, such as the agent's name")


class TokenMade(Schema):
    """`token` is shown here only. Send it as `Authorization: Bearer TOKEN`. `key` lists and revokes the tokens that
    were made with it, and controls their sessions: send it as `X-Owner-Key`, here too for the next token."""

    id: str
    label: str
    token: str
    key: str


@router.post("/tokens", response={201: TokenMade}, summary="Make an owner token, which controls many sessions")
def make(request: HttpRequest, asked: TokenIn, x_owner_key: str = Header("")):
    address = limits.address(request)
    if x_owner_key:
        owners.of_key(address, x_owner_key)
    sessions.limited(limits.tokens, [address], "owner tokens")
    row, token, key = owners.make(" ".join(shown(asked.label).split()), x_owner_key)
    limits.guesses.right(address, f"owner {token}")
    limits.guesses.right(address, f"key {key}")
    return Status(201, {"id": row.id, "label": row.label, "token": token, "key": key})


class StartedOut(Schema):
    id: str
    title: str
    state: str
    created: float
    view_url: str


class TokenOut(Schema):
    """`sessions`: the newest that were started with it."""

    id: str
    label: str
    created: float
    last_used: float | None
    revoked: float | None
    sessions: list[StartedOut]


class Tokens(Schema):
    tokens: list[TokenOut]


@router.get("/tokens", response=Tokens, summary="The owner tokens of a key, or the one that asks, with their sessions")
def list_tokens(request: HttpRequest, x_owner_key: str = Header("")):
    return {"tokens": [_row(request, row) for row in _mine(request, x_owner_key)]}


@router.delete("/tokens/{token_id}", response={204: None}, summary="Revoke an owner token; its sessions continue")
def revoke(request: HttpRequest, token_id: str, x_owner_key: str = Header("")):
    row = next((row for row in _mine(request, x_owner_key) if row.id == token_id), None)
    if row is None:
        raise Refused(404, "There is no such token of yours.", "GET /api/tokens lists them with their ids.")
    owners.revoke(row)
    return HttpResponse(status=204)


def _mine(request: HttpRequest, key: str) -> list[OwnerToken]:
    """The tokens of a key or, without one, the bearer token itself. Raises Refused."""
    if key:
        return owners.of_key(limits.address(request), key)
    row = owners.bearer(request)
    if row is None:
        raise Refused(401, "This needs an owner token or its key.", owners.MAKE_ONE)
    return [row]


def _row(request: HttpRequest, row: OwnerToken) -> dict[str, Any]:
    newest = row.sessions.order_by("-created").only("id", "title", "state", "created")[:SHOWN]
    return {
        "id": row.id,
        "label": row.label,
        "created": row.created.timestamp(),
        "last_used": row.last_used.timestamp() if row.last_used else None,
        "revoked": row.revoked.timestamp() if row.revoked else None,
        "sessions": [
            {
                "id": s.id,
                "title": s.title,
                "state": s.state,
                "created": s.created.timestamp(),
                "view_url": request.build_absolute_uri(reverse("session", args=[s.id])),
            }
            for s in newest
        ],
    }
