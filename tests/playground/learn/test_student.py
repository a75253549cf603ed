"""Eight new modules answered from the first three lessons alone (student.toml): the cited sentences stand in those
lessons, in English and in Korean, and the answers agree with sol."""

import re
import tomllib
from pathlib import Path

import pytest

from playground import learn
from playground.learn import facts
from playground.learn.writing import work

MODULES = tomllib.loads((Path(__file__).parent / "student.toml").read_text())["module"]
LANGUAGES = ("en", "ko")
ACTIONS = {"fuse_pointwise": "fuse", "fuse_tail": "fuse", "lower_class": "lower_class", "none": "none"}


def sentences(lesson: learn.Lesson) -> str:
    """What a student reads in a lesson: its texts, questions, hints, captions and reasons, without markup."""
    pieces = []
    for step in lesson.steps:
        pieces += [step.body_html, *step.hints, *(b.get("caption", "") for b in step.blocks)]
        if q := step.question:
            pieces += [q.ask_html, q.because_html, *(o.html for o in q.options), *(w.html for w in q.wrongs)]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", " ".join(pieces)))


TEXTS = {language: {one.slug: sentences(one) for one in learn.library(language)[:3]} for language in LANGUAGES}


def test_there_are_eight_modules_that_no_lesson_shows():
    assert len(MODULES) == 8 and len({m["name"] for m in MODULES}) == 8
    shown = {b["text"].strip() for lesson in learn.library() for s in lesson.steps for b in s.blocks if "text" in b}
    assert not shown & {m["work"].strip() for m in MODULES}
    assert {m["binds"] for m in MODULES} == {"memory", "matrix", "vector"}
    assert {m["lever"] for m in MODULES} == {"fuse", "lower_class", "none"}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m["name"])
def test_the_answers_agree_with_sol(module):
    graph = work.read(module["work"].strip())
    assert facts.binds(graph, module["class"]) == module["binds"]
    assert facts.limit(graph, module["class"]) == pytest.approx(module["ms"], rel=0.02)
    assert ACTIONS[facts.lever(graph, module["class"])] == module["lever"]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m["name"])
def test_each_answer_cites_sentences_of_the_first_three_lessons(module):
    assert len(module["cites"]) >= 3  # what binds it, how fast, which lever
    for slug, *cited in module["cites"]:
        for language, sentence in zip(LANGUAGES, cited, strict=True):
            assert sentence in TEXTS[language][slug], (slug, sentence)
