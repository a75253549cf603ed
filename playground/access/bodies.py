"""The JSON body of an API request, checked before any field of it is read: form, depth, text, numbers."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from playground.access.answers import Refused

DEEPEST = 16  # levels; a session's options have three
LARGEST = 2**64  # of whole numbers; fields have narrower limits of their own
FORM = "Send a JSON object; the form of each request is at /api/docs."
NO_TEXT = re.compile("[\0\ud800-\udfff]")


class BodyParser(Parser):
    """Parses a body, or raises Refused, which ninja wraps in an HttpError (as its cause)."""

    def parse_body(self, request: HttpRequest) -> Any:
        kind = (request.content_type or "").lower()
        if kind and kind != "application/json":
            fix = 'Send JSON with the header "Content-Type: application/json".'
            raise Refused(415, f"The body is sent as {kind[:60]!r}, not as JSON.", fix)
        value = parsed(request.body)
        check(value)
        return value


def parsed(body: bytes) -> Any:
    """The value of a body. Raises Refused(400) for one that is not JSON in UTF-8."""
    try:
        return json.loads(body.decode())
    except UnicodeDecodeError as e:
        raise Refused(400, f"The body is not UTF-8: byte {e.start} is no part of a character.", FORM) from None
    except json.JSONDecodeError as e:
        raise Refused(400, f"The body is not JSON: {e.msg}, line {e.lineno}, column {e.colno}.", FORM) from None
    except RecursionError:
        raise Refused(400, f"The body is nested deeper than {DEEPEST} levels.", FORM) from None
    except ValueError:  # a number with thousands of digits
        raise Refused(400, "The body holds a number with too many digits.", FORM) from None


def check(value: Any) -> None:
    """Raise Refused(422) for a value that is too deep, or holds what is neither text nor a usual number. Linear."""
    rest: list[tuple[Any, int, str]] = [(value, 1, "")]
    while rest:
        value, depth, field = rest.pop()
        if depth > DEEPEST:
            raise Refused(422, f"{field or 'The body'}: nested deeper than {DEEPEST} levels.", FORM)
        if isinstance(value, str):
            if NO_TEXT.search(value):
                about = f"{field or 'The body'}: the text holds characters that are not text (NUL or a lone surrogate)."
                raise Refused(422, about, "Paste plain text.", **({"field": field} if field else {}))
        elif isinstance(value, dict):
            for name, inner in value.items():
                if NO_TEXT.search(name):
                    raise Refused(422, "The name of a field holds characters that are not text.", FORM)
                rest.append((inner, depth + 1, field or name[:40]))
        elif isinstance(value, list):
            rest += [(inner, depth + 1, field) for inner in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise Refused(422, f"{field or 'The body'}: NaN and Infinity are not JSON numbers.", FORM)
        elif isinstance(value, int) and not -LARGEST < value < LARGEST:
            raise Refused(422, f"{field or 'The body'}: the number is out of range.", FORM)
