"""The request that brings a visitor's key: read by hand, so that no framework parses, repeats or keeps its body.

No message here holds any part of the body, whatever the body is.
"""

from __future__ import annotations

import ipaddress
import json

from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables

from engine.llm.keys import LONGEST, BadKey, checked
from playground.access import limits, sessions
from playground.access.answers import Refused
from playground.live import keys
from playground.models import Session

FORM = 'Send {"key": "..."} as JSON.'
MOST = LONGEST + 1000  # bytes of a body
DESCRIBED = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object", "required": ["key"], "additionalProperties": False,
                    "properties": {"key": {"type": "string", "format": "password", "maxLength": LONGEST}},
                }
            }
        },
    }
}  # fmt: skip


@sensitive_variables()
def take(request: HttpRequest, session: Session) -> dict[str, str]:
    """Pass the key of a request, whose right was checked, on to the engine. Returns {endpoint}. Raises Refused."""
    sessions.limited(limits.keys, [f"session {session.id}", limits.address(request)], "keys")
    _must_be_private(request)
    keys.wanted(session)  # before the key is looked at
    try:
        key = checked(_key_of(request))
    except BadKey as e:
        raise Refused(422, str(e), "Copy the key from the endpoint's own page.", field="key") from None
    return {"endpoint": keys.give(session, key).endpoint}


@sensitive_variables()
def _key_of(request: HttpRequest) -> str:
    if len(request.body) > MOST:
        raise Refused(413, "The body is too long for a key.", FORM)
    try:
        body = json.loads(request.body.decode())
    except (ValueError, RecursionError):
        raise Refused(400, "The body is not JSON.", FORM) from None
    if not isinstance(body, dict) or set(body) != {"key"} or not isinstance(body["key"], str):
        raise Refused(422, "The body is not an object with the text `key` alone.", FORM, field="key")
    return body["key"]


def _must_be_private(request: HttpRequest) -> None:
    """Raise Refused for a key that came over a network in plain text."""
    try:
        here = ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        here = False
    if not here and not request.is_secure():
        error = "This page came over plain http, where others can read a key on its way. The key was not used."
        raise Refused(403, error, "Open the page over https, and replace the key if others share the network.")
