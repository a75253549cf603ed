"""The pages of sharing: one pane of a session for another site's page, and the picture of a link's card."""

from __future__ import annotations

from csp.constants import NONE
from csp.decorators import csp_replace
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import translation
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from dsl.editor.vocabulary import vocabulary
from playground import api
from playground.access import answers, limits
from playground.learn.writing.reader import LANGUAGES
from playground.models import Session
from playground.sharing import cards, snapshots, words
from playground.views import find, private

PANES = ("result", "roofline", "history", "breakdown", "trials")
FOREVER, SOON = 86_400, 60  # seconds


@require_safe
@private
@xframe_options_exempt
@csp_replace({"frame-ancestors": ["*"], "form-action": [NONE]})
def embed(request: HttpRequest, session_id: str) -> HttpResponse:
    """One pane (?pane=roofline) that another site may frame; with ?replay it plays once the session has ended,
    with ?lang=ko it speaks Korean. It holds the view link and nothing that controls."""
    session = find(request, session_id, id=session_id)
    pane = request.GET.get("pane", PANES[0])
    if pane not in PANES:
        raise Http404(f"There is no such pane. The panes are {', '.join(PANES)}.")
    language = request.GET.get("lang", "")
    language = language if language in LANGUAGES else "en"
    described = api.describe(session)
    boot = {
        "session": described | {"spec": {"trials": session.spec.get("trials")}},  # no source: nothing here shows it
        "view_url": request.build_absolute_uri(reverse("session", args=[session.id])),
        "words": vocabulary(),
        "control": None,
        "pane": pane,
        "replay": "replay" in request.GET,
        "texts": words.texts(language),
        "sentences": words.sentences(language),
    }
    context = {"boot": boot, "session": boot["session"], "pane": pane, "language": language}
    with translation.override(language):
        response = render(request, "embed.html", context)
    response["Content-Language"] = language
    return response


@require_safe
def card(request: HttpRequest, session_id: str) -> HttpResponse:
    """The picture of a session's link. Whoever has the link may cache it."""
    session = find(request, session_id, id=session_id)
    good, runs = snapshots.runs_of(session)
    tag = f'"{session.last_seq}.{good}.{runs}"'
    if request.headers.get("If-None-Match") == tag:
        return HttpResponse(status=304)
    if wait := limits.checks.wait(limits.address(request)):
        raise answers.too_many("cards", wait)
    response = HttpResponse(cards.picture(session), content_type="image/png")
    ended = session.state == Session.ENDED
    response["Cache-Control"] = f"public, max-age={FOREVER if ended else SOON}"
    response["ETag"] = tag
    response["X-Robots-Tag"] = "noindex"
    return response
