"""The pages. Each template gets one object, `boot`, which the page's script reads with json_script.

playground.html   boot = {fork: null | FORK, examples, engines, queued, limits, strategies, endpoints, words,
                   descriptions, forms: {kind of a device: {form of candidates: what it means there}}}
                  seen = the card of a recorded search (playground.gallery.cards), None where none is loaded
                  FORK = {id, title, spec, text, source_kind, refused?: {reason, line}}
session.html      boot = {session: as GET /api/sessions/<id>, view_url, ws_path, words, control: null | {token, url,
                   pinned}, texts, sentences, again: null | {of, title, trials}}; card = {url, image, text}
language.html     sections, groups: as playground.language.reference gives them; language_word.html: a code's or a
word's page
error.html        status, title, text
"""

from __future__ import annotations

import functools

from csp.constants import SELF
from csp.decorators import csp_replace
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_safe

from dsl.editor.vocabulary import vocabulary
from engine.record import counted
from engine.session.spec import strategies
from engine.strategies.forms import meanings
from playground import api, conf, engines, exports
from playground.access import answers, limits, requests, tokens
from playground.gallery import cards as gallery_cards
from playground.language import examples, reference
from playground.learn import words
from playground.learn.writing.reader import LANGUAGES
from playground.models import Session
from playground.sharing import again, cards, mine_words, session_words, snapshots
from playground.words import writer

SHOWN_FIRST = "linear_div_gelu.jsonl"  # the recording beside the editor: a whole search, measured, with both stop rules
CARD_READERS = (
    "Twitterbot",
    "facebookexternalhit",
    "LinkedInBot",
    "Slackbot-LinkExpanding",
    "Discordbot",
    "TelegramBot",
)


def private(view):
    """A page whose address is a key: not cached, not listed by robots, not sent as a referrer."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args, **kwargs) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Referrer-Policy"] = "no-referrer"
        response["X-Robots-Tag"] = "noindex"
        response["Cache-Control"] = "private, no-store"
        return response

    return wrapped


@require_safe
def playground(request: HttpRequest) -> HttpResponse:
    return _playground(request, None)


def _playground(request: HttpRequest, fork: dict | None) -> HttpResponse:
    boot = {
        "fork": fork,
        "examples": examples.all_examples(),
        "engines": [engines.describe(e) for e in engines.alive()],
        "queued": Session.objects.filter(state=Session.QUEUED).count(),
        "limits": {"source_kib": conf.get("UCUTLASS_SOURCE_KIB"), "trials": requests.most_trials()},
        "strategies": strategies(),
        "endpoints": requests.endpoints(),
        "words": vocabulary(),
        "descriptions": writer.EXAMPLES,
        "forms": meanings(),
    }
    recording = Session.objects.filter(recorded=True, provenance__file=SHOWN_FIRST).first()
    return render(request, "playground.html", {"boot": boot, "seen": recording and gallery_cards.card(recording)})


def find(request: HttpRequest, link: str, **key: str) -> Session:
    """The session of a link (its id or its control token), by a column. Raises Http404, or Refused(429) for an address
    with too many wrong links."""
    session = limits.guesses.look(limits.address(request), link, Session.objects.filter(**key).first)
    if session is None:
        raise Http404("There is no session at this link. It may have been deleted some weeks after its end.")
    return session


def _session(
    request: HttpRequest, session: Session, token: str | None, *, framed: bool = False, language: str = "en"
) -> HttpResponse:
    url = request.build_absolute_uri(reverse("session", args=[session.id]))
    boot = {
        "session": api.describe(session),
        "view_url": url,
        "ws_path": f"/ws/s/{session.id}",
        "words": vocabulary(),
        "control": {"token": token, "url": request.build_absolute_uri(), "pinned": session.pinned} if token else None,
        "texts": session_words.texts(language),
        "sentences": session_words.sentences(language),
        "again": again.runs_of(session),
    }
    card = {"url": url, "image": request.build_absolute_uri(reverse("card", args=[session.id]))}
    card["text"] = cards.sentence(session)
    listed = snapshots.runs_listed(session)
    good, runs = counted({"reproductions": listed})
    context = {"boot": boot, "session": boot["session"], "card": card, "runs": runs, "page_language": language}
    context["runs_listed"] = listed
    context["offers_again"] = again.offered(session)
    asks = any(s["name"] == session.spec.get("strategy") and s["asks"] for s in strategies())
    ended = session.state == Session.ENDED
    story = ended and (asks or session.spec.get("strategy") == "agent")  # its turns are drawn above the panes
    context |= {"owner": bool(token), "framed": framed, "writes": asks and not ended, "led": story}
    end = session.summary.get("end") or {}
    context["nothing"] = end.get("state") in ("refused", "failed") and not session.summary.get("trials")
    with translation.override(language):
        context["reproduced"] = gettext("{n} of {all}").format(n=good, all=runs)
        response = render(request, "session.html", context)
    response["Content-Language"] = language
    return response


@require_safe
@private
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    return _session(request, find(request, session_id, id=session_id), None)


@csp_replace({"frame-ancestors": [SELF]})
@xframe_options_sameorigin
@require_safe
@private
def framed(request: HttpRequest, session_id: str) -> HttpResponse:
    """The session's page without the site's header, for a frame in a page of ours; with ?lang=ko it speaks Korean."""
    language = request.GET.get("lang", "")
    language = language if language in LANGUAGES else "en"
    return _session(request, find(request, session_id, id=session_id), None, framed=True, language=language)


@require_safe
@private
def control(request: HttpRequest, token: str) -> HttpResponse:
    """The owner's page. The control link and the view link do not contain each other's token."""
    return _session(request, find(request, token, control_hash=tokens.digest(token)), token)


@require_safe
@private
def fork(request: HttpRequest, session_id: str) -> HttpResponse:
    """The playground with this session's text or, with ?trial=N, that trial's program (not for a raw kernel)."""
    session = find(request, session_id, id=session_id)
    if not session.spec.get("source"):
        text = "Its owner shares the results without the source, so there is no text to start from."
        return answers.error(request, 409, "This cannot be forked", text)
    prefill = {
        "id": session.id,
        "title": session.title,
        "spec": again.forked(session.spec),
        "text": session.spec["source"],
        "source_kind": session.spec["source_kind"],
    }
    trial = request.GET.get("trial", "")
    if trial.isdecimal() and len(trial) < 9:
        text = api.program_of(session, int(trial))
        if text is not None:
            prefill |= {"text": text, "source_kind": "program", "trial": int(trial)}
    end = session.summary.get("end") or {}
    if end.get("state") == "refused" and "trial" not in prefill:
        prefill["refused"] = {"reason": end["reason"], "line": end.get("line")}
    return _playground(request, prefill)


@require_safe
@private
def export(request: HttpRequest, session_id: str) -> HttpResponse:
    """A trial (?trial=N, by default the session's best) as a zip: program, sources, package, check, figures; or as one
    file with ?as=modelnew or ?as=notebook."""
    session = find(request, session_id, id=session_id)
    trial = request.GET.get("trial", "")
    if wait := limits.checks.wait(limits.address(request)):
        raise answers.too_many("exports", wait)
    try:
        number = int(trial) if trial.isdecimal() and len(trial) < 9 else None
        form = request.GET.get("as", "zip")
        return exports.file_of(session, number, form) if form != "zip" else exports.zip_of(session, number)
    except exports.ExportError as e:
        text = f"{str(e)[:1].upper()}{str(e)[1:].removesuffix('.')}."
        return answers.error(request, 409, "This cannot be exported", text)


@require_safe
@private
def mine(request: HttpRequest) -> HttpResponse:
    """My sessions: the owner tokens of this browser, which keeps their key, and the sessions started with them."""
    language = words.language_of(request)
    boot = {"mcp_url": request.build_absolute_uri(reverse("mcp")), "texts": mine_words.texts(language)}
    context = {"boot": boot, "page_language": language, "languages": words.NAMES.items()}
    with translation.override(language):
        response = render(request, "mine.html", context)
    response["Content-Language"] = language
    response["Vary"] = "Accept-Language"
    return response


@require_safe
def language(request: HttpRequest) -> HttpResponse:
    """The reference, and all error codes."""
    return render(request, "language.html", {"sections": reference.reference(), "groups": reference.codes()})


@require_safe
def language_word(request: HttpRequest, word: str) -> HttpResponse:
    """The page of an error code (/language/E204) or of a word (/language/tile)."""
    context = reference.code_page(word) or reference.word_page(word)
    if context is None:
        near = reference.near(word[:64])
        meant = f" Did you mean {near}? It is at /language/{near}." if near else " All codes are at /language."
        raise Http404(f"There is no code or word {word[:64]!r}.{meant}")
    return render(request, "language_word.html", context)


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 if the database answers; `engines` counts the live ones (a page without one still works)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    waiting = Session.objects.filter(state=Session.QUEUED).count()
    return JsonResponse({"ok": True, "engines": len(engines.alive()), "queued": waiting})


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """No search engine lists a session; what draws the card of a shared link may read its page."""
    secret = "".join(f"Disallow: {path}\n" for path in ("/c/", "/w/", "/framed/", "/api/"))
    readers = "".join(f"User-agent: {name}\n" for name in CARD_READERS) + secret
    return HttpResponse(f"{readers}\nUser-agent: *\nDisallow: /s/\n{secret}", content_type="text/plain")


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """The pages name an SVG icon; this answers clients that request the old name."""
    return HttpResponse(status=204)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = str(exception) if isinstance(exception, Http404) and exception.args else ""
    if not text or text.startswith("{") or "tried" in text:
        text = "There is no page at this address."
    return answers.error(request, 404, "Not here", text)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "Open the page by the address the server printed."
    return answers.error(request, 400, "That request is not valid here", text)


def server_error(request: HttpRequest) -> HttpResponse:
    text = "The error is ours and is in the server's log. Sessions continue."
    return answers.error(request, 500, "Something broke", text)
