"""Refusals as an answer: {error, fix} for API addresses, else the error page."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template import TemplateDoesNotExist
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join

LISTED = "The addresses are listed at /api/docs."


def machine(request: HttpRequest) -> bool:
    """Return True if a program reads the answer, which is then JSON and no page."""
    return request.path.startswith("/api/") or request.path.rstrip("/") == "/mcp"


class Refused(Exception):
    """A request that is refused: HTTP status, the error, and the way out. `wait`: seconds until it may be repeated."""

    def __init__(self, status: int, error: str, fix: str, *, wait: float = 0.0, **more: Any):
        super().__init__(error)
        self.status, self.wait, self.body = status, wait, {"error": error, "fix": fix, **more}


def too_many(what: str, wait: float) -> Refused:
    """The refusal of an address over a limit. `wait`: seconds."""
    return Refused(429, f"Too many {what} from this address.", f"Try again in {math.ceil(wait)} s.", wait=wait)


def refusal(request: HttpRequest, refused: Refused, title: str = "This request is refused") -> HttpResponse:
    """The answer to a refused request, with Retry-After where waiting helps."""
    if machine(request):
        response: HttpResponse = JsonResponse(refused.body, status=refused.status)
    else:
        response = page(request, refused.status, title, f"{refused.body['error']} {refused.body['fix']}")
    return patient(response, refused.wait)


def patient(response: HttpResponse, wait: float) -> HttpResponse:
    """Add Retry-After for `wait` seconds, nothing for 0; and to 401 what the header Authorization must hold."""
    if response.status_code == 401:
        response["WWW-Authenticate"] = 'Bearer realm="owner token"'
    if wait:
        response["Retry-After"] = str(max(1, math.ceil(wait)))
    return response


def error(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """For API addresses {error, fix}; else the error page."""
    if machine(request):
        return JsonResponse({"error": text, "fix": LISTED}, status=status)
    return page(request, status, title, text)


WAYS = {  # first part of an address: the page beside it that leads on, and its name
    "w": ("door", "Type a code"),
    "learn": ("learn", "See all lessons"),
    "language": ("language", "See the language"),
    "s": ("mine", "My sessions"),
    "c": ("mine", "My sessions"),
}


def page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """The error page, and plain HTML if that fails too."""
    try:
        route, name = WAYS.get(request.path.split("/")[1], ("gallery", "See the gallery"))
        if request.path == reverse("compare"):
            route, name = "compare", "Give two other links"
        context = {"status": status, "title": title, "text": coded(text), "way": reverse(route), "way_name": name}
        response = render(request, "error.html", context, status=status)
    except (TemplateDoesNotExist, ValueError, OSError):
        response = plain(status, title, text)
    response["Referrer-Policy"] = "no-referrer"
    return response


def coded(text: str) -> str:
    """HTML of a text of ours, with each part between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return text
    nodes = ((format_html("<code>{}</code>", part) if i % 2 else part,) for i, part in enumerate(parts))
    return format_html_join("", "{}", nodes)


def plain(status: int, title: str, text: str) -> HttpResponse:
    """An error page without a template."""
    html = f"<!doctype html><title>{escape(title)}</title><h1>{escape(title)}</h1><p>{escape(text)}"
    return HttpResponse(html, status=status)
