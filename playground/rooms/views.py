"""The pages of workshops. No page holds anything of a room that needs a token: its script asks for that with the token.

workshops.html  the door: a code, or a new room
room_new.html   boot = {lessons: [{slug, title, ...}], seats, most_seats, trials, lonely: nobody else reaches this host}
room.html       boot = {code, join_url, ws_path, titles}
wall.html       boot = {code, join_url, ws_path, titles, lonely, token: the teacher's, or null}

Each boot has words, texts and language too; titles: {LESSON or LESSON/STEP: title} in that language.
"""

from __future__ import annotations

import ipaddress

import segno
from csp.constants import SELF
from csp.decorators import csp_update
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from playground import conf
from playground.access import limits
from playground.access.answers import Refused
from playground.learn import LANGUAGES, library, listed
from playground.learn.words import language_of
from playground.models import Room
from playground.rooms import names, plan, rules, words
from playground.views import private

LONELY = ("localhost", "localhost.localdomain")


@require_safe
def door(request: HttpRequest) -> HttpResponse:
    """Where a code is typed. ?code=CODE goes on to the room."""
    code = request.GET.get("code", "")
    if code.strip():
        chosen = f"?lang={request.GET['lang']}" if request.GET.get("lang") in LANGUAGES else ""
        typed = names.normal(code).replace("/", "")[:20]  # no path holds a slash as a part of a name
        return redirect(f"{reverse('room', args=[typed or '-'])}{chosen}")
    return _page(request, "workshops.html", {})


@require_safe
def new(request: HttpRequest) -> HttpResponse:
    boot = {
        "lessons": [listed(lesson) for lesson in library(language_of(request))],
        "seats": min(40, conf.get("UCUTLASS_ROOM_SEATS")), "most_seats": conf.get("UCUTLASS_ROOM_SEATS"),
        "trials": plan.TRIALS, "lonely": lonely(request),
    }  # fmt: skip
    return _page(request, "room_new.html", {"boot": boot, "reached": reached(request)})


@csp_update({"frame-src": [SELF]})
@require_safe
@private
def room(request: HttpRequest, code: str) -> HttpResponse:
    """A student's page: it asks for a nickname, and then shows the lessons."""
    row = _room(request, code)
    return _page(request, "room.html", {"boot": _boot(request, row), "room": row})


def _page(request: HttpRequest, template: str, context: dict) -> HttpResponse:
    """A page in the reader's language."""
    language = language_of(request)
    spoken = {"words": words.words(language), "texts": words.texts(language), "language": language}
    spoken |= {"sentences": words.sentences(language)}
    context = {**context, "boot": context.get("boot", {}) | spoken}
    with translation.override(language):
        response = render(request, template, context | {"language": language, "page_language": language})
    response["Content-Language"] = language
    response["Vary"] = "Accept-Language"
    return response


@csp_update({"frame-src": [SELF]})
@require_safe
@private
def wall(request: HttpRequest, code: str) -> HttpResponse:
    """The teacher's page for a browser that keeps the teacher's token; it says so if there is none."""
    return _wall(request, _room(request, code), None)


@csp_update({"frame-src": [SELF]})
@require_safe
@private
def teacher(request: HttpRequest, code: str, token: str) -> HttpResponse:
    """The teacher's link. The page keeps the token in its browser and takes it out of the address, because the address
    stands on the projector."""
    room = _room(request, code)
    try:
        rules.must_teach(limits.address(request), room, token)
    except Refused as e:
        if e.status != 403:
            raise
        raise Http404("This teacher's link is not valid. Open the whole link as it was shown.") from None
    return _wall(request, room, token)


def _wall(request: HttpRequest, room: Room, token: str | None) -> HttpResponse:
    boot = _boot(request, room) | {"token": token, "lonely": lonely(request)}
    qr = segno.make(boot["join_url"], error="m", micro=False)
    with translation.override(language_of(request)):
        title = gettext("QR code of the room")
    picture = qr.svg_inline(scale=4, border=2, dark="#000", light="#fff", omitsize=True, title=title)
    return _page(request, "wall.html", {"boot": boot, "room": room, "qr": picture, "reached": reached(request)})


def _room(request: HttpRequest, code: str) -> Room:
    """Raises Http404, or Refused(429) for an address that guesses."""
    try:
        return rules.find(limits.address(request), code)
    except Refused as e:
        if e.status != 404:
            raise
        raise Http404("There is no room with this code. Check it with your teacher; old rooms are deleted.") from None


def _boot(request: HttpRequest, room: Room) -> dict:
    join_url = request.build_absolute_uri(reverse("room", args=[room.code]))
    titles = plan.titles(room.plan, language_of(request))
    return {"code": room.code, "join_url": join_url, "ws_path": f"/ws/w/{room.code}", "titles": titles}


def lonely(request: HttpRequest) -> bool:
    """Return True if the page was opened by a name that means this machine alone, so that no student can join."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host in LONELY


def reached(request: HttpRequest) -> list[str]:
    """The addresses of the form for a room that others can open, of those that the app serves (UCUTLASS_HOSTS)."""
    place = f":{request.get_port()}{reverse('new_room')}"
    return [f"{request.scheme}://{host}{place}" for host in conf.get("UCUTLASS_HOSTS") if _of_network(host)]


def _of_network(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host and host[0] not in ".*" and host not in LONELY  # others may not know a bare name
    return not (address.is_loopback or address.is_unspecified)
