"""The gallery's pages. `boot` is the one object that a page's script reads.

gallery.html      cards, worth = playground.gallery.cards.Card; devices, classes = of the cards; suite = as
                  playground.gallery.suite.summary gives it; studies = static/data/studies.json; shapes =
                  static/data/shape_groups.json or None; boot = {recordings: {problem of the suite: id of a recording
                  of the same module}}
compare.html      as playground.gallery.compare.context has it, boot = {compared: [{letter, id}]}; without two sessions
                  links = {a, b} and error, and of one session other = its name, recorded = sessions, boot = {other}
problem.html      problem = playground.gallery.suite.Problem; recordings = sessions of the same module; classes =
                  [(class, name)]; class_name; code = the program in colour; editor = its address in the editor; table =
                  {title, address} of the table that it is a row of
kernelbench.html  results = static/data/kernelbench.json or None; about
"""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from engine.words import class_name
from playground import conf
from playground.access import answers, limits
from playground.access.answers import Refused
from playground.gallery import cards, suite
from playground.gallery import compare as comparing
from playground.gallery import kernelbench as kernelbenches
from playground.gallery.sides import side
from playground.language.reference import highlight, in_editor
from playground.models import Session
from playground.views import find, private

STUDIES = conf.ROOT / "static" / "data" / "studies.json"  # by hand: what the studies published, and ours beside it
SHAPES = conf.ROOT / "static" / "data" / "shape_groups.json"  # by engine.bench.report.shape_groups


@require_safe
def gallery(request: HttpRequest) -> HttpResponse:
    recorded = _recorded()
    shown = [cards.card(session) for session in recorded]
    same = {name: sessions[0].id for name, sessions in suite.recordings(recorded).items()}
    context = {"cards": shown, "worth": cards.worth(shown, recorded), "boot": {"recordings": same}}
    context["devices"] = sorted({card.device for card in shown if card.device})
    context["classes"] = [(cls, class_name(cls)) for cls in sorted({cls for card in shown for cls in card.classes})]
    context["suite"] = suite.summary(request.GET.get("class", ""))
    context["studies"] = json.loads(STUDIES.read_text(encoding="utf-8"))
    context["shapes"] = json.loads(SHAPES.read_text(encoding="utf-8")) if SHAPES.exists() else None
    return render(request, "gallery.html", context)


@require_safe
def problem(request: HttpRequest, name: str) -> HttpResponse:
    """A problem of the suite in a class (?class=f16): its best program, the code that it becomes, and every trial."""
    shown = suite.problem(name, request.GET.get("class", ""))
    if shown is None:
        raise Http404("The suite has no such problem. All of them are in the table of the gallery.")
    context = {"problem": shown, "recordings": suite.recordings(_recorded()).get(name, [])}
    context |= {"classes": [(cls, class_name(cls)) for cls in shown.classes], "class_name": class_name(shown.cls)}
    context |= _program(shown)
    table = {"title": "The benchmark suite", "address": f"{reverse('gallery')}?class={shown.cls}#suite"}
    return render(request, "problem.html", context | {"table": table})


@require_safe
def kernelbench(request: HttpRequest) -> HttpResponse:
    """The results on KernelBench as a table."""
    results = kernelbenches.published()
    context = {"results": results, "about": suite.measured(results)} if results else {}
    return render(request, "kernelbench.html", context)


@require_safe
def kernelbench_problem(request: HttpRequest, name: str) -> HttpResponse:
    """A problem of KernelBench: its best program, the code that it becomes, and every trial."""
    shown = kernelbenches.problem(name)
    if shown is None:
        raise Http404("The results have no such problem of KernelBench. All that were measured are in its table.")
    context = {"problem": shown, "class_name": class_name(shown.cls)} | _program(shown)
    table = {"title": "KernelBench", "address": reverse("kernelbench")}
    return render(request, "problem.html", context | {"table": table})


def _program(shown: suite.Problem) -> dict[str, str]:
    program = shown.program
    return {"code": highlight(program.text), "editor": in_editor(program.text)} if program else {}


def _others(name: str) -> dict[str, Any]:
    """What a session can be compared with: recordings here, and in its script the sessions of the visitor's browser."""
    if not name:
        return {}
    recorded = [session for session in _recorded() if session.id != name]
    return {"other": name, "recorded": recorded, "boot": {"other": name}}


@require_safe
@private
def compare(request: HttpRequest) -> HttpResponse:
    """Two sessions side by side (?a=LINK&b=LINK), to whoever has the view links of both; without them, a form."""
    links = {letter: request.GET.get(letter, "")[:400] for letter in "ab"}
    try:
        names = {letter: comparing.name_of(link) for letter, link in links.items()}
    except Refused as e:
        text = f"{e.body['error']} {e.body['fix']}"
        return render(request, "compare.html", {"links": {}, "error": text}, status=e.status)
    if not all(names.values()) or names["a"] == names["b"]:
        same = names["a"] and names["a"] == names["b"]
        error = "Both links are of the same session. Give two different ones." if same else ""
        return render(request, "compare.html", {"links": links, "error": error} | _others(names["a"]))
    if wait := limits.checks.wait(limits.address(request)):
        raise answers.too_many("comparisons", wait)
    a, b = (side(letter.upper(), find(request, name, id=name)) for letter, name in names.items())
    boot = {"compared": [{"letter": one.letter, "id": one.session.id} for one in (a, b)]}
    shown = comparing.context(a, b, request.GET.get("class", ""))
    return render(request, "compare.html", shown | {"links": names, "boot": boot})


def _recorded() -> list[Session]:
    return list(Session.objects.filter(recorded=True).order_by("title"))
