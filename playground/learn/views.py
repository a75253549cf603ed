"""The pages of the lessons.

learn.html         lessons: rows as playground.learn.listed; boot = {lessons, words, language}
learn_lesson.html  lesson; boot = {lesson: as playground.learn.lesson_json, next: {slug, title} | null, words, language}
learn_own.html     guide: how a lesson is written; boot = {text: an example to begin with, words, language}
"""

from __future__ import annotations

import functools
from typing import Any

from csp.constants import SELF
from csp.decorators import csp_update
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from playground.learn import facts, figures, forms, shelf, words
from playground.learn.exam import bank
from playground.learn.writing import markdown

EXAMPLE = """---
title: My first lesson
minutes: 5
summary: What binds a small product?
---

```work small
x: f16[64, 4096] input
w: f16[4096, 4096] parameter
y = linear(x, w)
return y
```

## read start: A small product

The product moves {{bytes(small, "f16") | bytes}} and does {{flops(small, "f16") | flops}}.

## predict binds: What binds it?

```question choice
ask: Which roof is the limit on an H200?
option memory: The memory
option matrix: The matrix units
right: binds(small, "f16")
wrong matrix: It does only {{intensity(small, "f16") | int}} FLOP for each byte;
  the ridge point is {{ridge("h200", "f16") | int}}.
because: It lies to the left of the ridge point.
hint: Divide the FLOP by the bytes, and compare with the ridge point.
```
"""


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


@functools.cache
def _guide() -> str:
    """How a lesson is written, as safe HTML: the form in playground/lessons/README.md, the functions, the skills."""
    text = (shelf.FOLDER / "README.md").read_text(encoding="utf-8")
    form = text[text.index("## The form") : text.index("## In Python")].partition("\n")[2]
    figure = (figures.__doc__ or "").partition("KIND is one of:\n")[2].strip("\n")
    rows = "\n".join("| `{}` | {} |".format(*facts.use(name)) for name in sorted(facts.FUNCTIONS))
    titles = {skill: variant.title for (skill, _), variant in bank.variants().items()}
    skills = "\n".join(f"| `{skill}` | {title} |" for skill, title in titles.items())
    return markdown.unfilled(
        f"{form}\n\nThe lines of each figure:\n\n{figure}\n\n| function | what it gives |\n|---|---|\n{rows}\n\n"
        f"| skill | what a room's test asks |\n|---|---|\n{skills}\n"
    )


@csp_update({"frame-src": [SELF]})
@require_safe
def own(request: HttpRequest) -> HttpResponse:
    """A teacher's own lesson: checked and previewed by the API, stored nowhere."""
    return _page(request, "learn_own.html", {"text": EXAMPLE}, guide=mark_safe(_guide()))
