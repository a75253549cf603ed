"""The gallery's pages. `boot` is the one object that a page's script reads.

gallery.html      worth = playground.gallery.worth.Card; sessions = rows as playground.api.listed;
                  studies = static/data/studies.json; boot = {sessions, bench: whether there is data/bench.json}
"""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from playground import api, conf
from playground.gallery import worth
from playground.models import Session

BENCH = conf.ROOT / "static" / "data" / "bench.json"  # written by engine.bench.report.publish
STUDIES = conf.ROOT / "static" / "data" / "studies.json"  # by hand: what the studies published, and ours beside it


@require_safe
def gallery(request: HttpRequest) -> HttpResponse:
    recorded = list(Session.objects.filter(recorded=True).order_by("title"))
    rows = [api.listed(session) for session in recorded]
    studies = json.loads(STUDIES.read_text(encoding="utf-8"))
    context = {"worth": worth.cards(recorded), "sessions": rows, "studies": studies}
    return render(request, "gallery.html", context | {"boot": {"sessions": rows, "bench": BENCH.exists()}})
