"""The pages of the lessons.

learn.html         lessons: rows as playground.learn.listed; boot = {lessons, words, language}
learn_lesson.html  lesson; boot = {lesson: as playground.learn.lesson_json, next: {slug, title} | null, words, language}
learn_own.html     guide: how a lesson is written; boot = {text: an example to begin with, sentences, words,
                   language}
"""

from __future__ import annotations

from typing import Any

from csp.constants import SELF
from csp.decorators import csp_update
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from playground.learn import forms, own, own_words, shelf, words


def _page(request: HttpRequest, template: str, boot: dict[str, Any], **context: Any) -> HttpResponse:
    language = words.language_of(request)
    boot |= {"words": words.words(language), "language": language}
    context |= {"boot": boot, "language": language, "page_language": language, "languages": words.NAMES.items()}
    with translation.override(language):
        response = render(request, template, context)
    response["Content-Language"] = language
    response["Vary"] = "Accept-Language"
    return response


@require_safe
def learn(request: HttpRequest) -> HttpResponse:
    """The list of lessons, in the order that builds up."""
    rows = [forms.listed(lesson) for lesson in shelf.library(words.language_of(request))]
    return _page(request, "learn.html", {"lessons": rows}, lessons=rows)


@csp_update({"frame-src": [SELF]})
@require_safe
def lesson(request: HttpRequest, slug: str) -> HttpResponse:
    lessons = shelf.library(words.language_of(request))
    place = next((i for i, one in enumerate(lessons) if one.slug == slug), None)
    if place is None:
        raise Http404("There is no lesson at this address. All lessons are at /learn.")
    after = next(({"slug": one.slug, "title": one.title} for one in lessons[place + 1 :]), None)
    boot = {"lesson": forms.lesson_json(lessons[place]), "next": after}
    return _page(request, "learn_lesson.html", boot, lesson=lessons[place])


@csp_update({"frame-src": [SELF]})
@require_safe
def own_lesson(request: HttpRequest) -> HttpResponse:
    """A teacher's own lesson: checked and previewed by the API, stored nowhere."""
    language = words.language_of(request)
    boot = {"text": own.example(language), "sentences": own_words.sentences(language)}
    return _page(request, "learn_own.html", boot, guide=mark_safe(own.guide(language)))
