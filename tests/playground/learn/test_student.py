"""Eight new modules answered from the first three lessons alone (student.toml): what binds each, how fast it can be,
which lever. The cited sentences stand in those lessons, in English and in Korean, and the answers agree with sol."""

import re
import tomllib
from pathlib import Path

import pytest

from playground import learn
from playground.learn import facts
from playground.learn.writing import expressions, work

MODULES = tomllib.loads((Path(__file__).parent / "student.toml").read_text())["module"]
LANGUAGES = ("en", "ko")
ACTIONS = {"fuse_pointwise": "fuse", "fuse_tail": "fuse", "lower_class": "lower_class", "none": "none"}
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda m: m["name"])


def sentences(lesson: learn.Lesson) -> str:
    """What a student reads in a lesson: its texts, questions, hints, captions and reasons, without markup."""
    pieces = []
    for step in lesson.steps:
        pieces += [step.body_html, *step.hints, *(b.get("caption", "") for b in step.blocks)]
        if q := step.question:
            pieces += [q.ask_html, q.because_html, *(o.html for o in q.options), *(w.html for w in q.wrongs)]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", " ".join(pieces)))


TEXTS = {language: {one.slug: sentences(one) for one in learn.library(language)[:3]} for language in LANGUAGES}


def counted(text: str) -> float:
    """A count as a student writes it: 2 * 8192 * 4096."""
    return expressions.read(text, expressions.Scope({})).number()


def rate(module: dict, unit: str, language: str) -> float | None:
    """The one rate of a unit in the sentences that are cited for the speed; None if there is none."""
    cited = " ".join(row[1 + LANGUAGES.index(language)] for row in module["cites"]["fast"])
    rates = {float(number) * 1e12 for number in re.findall(rf"([\d.]+) {unit}", cited)}
    assert len(rates) <= 1, rates
    return rates.pop() if rates else None


def test_there_are_eight_modules_that_no_lesson_shows():
    assert len(MODULES) == 8 and len({m["name"] for m in MODULES}) == 8
    shown = {b["text"].strip() for lesson in learn.library() for s in lesson.steps for b in s.blocks if "text" in b}
    assert not shown & {m["work"].strip() for m in MODULES}
    assert {m["binds"] for m in MODULES} == {"memory", "matrix", "vector"}
    assert {m["lever"] for m in MODULES} == {"fuse", "lower_class", "none"}


@each_module
def test_the_answers_agree_with_sol(module):
    graph = work.read(module["work"].strip())
    assert facts.binds(graph, module["class"]) == module["binds"]
    assert facts.limit(graph, module["class"]) == pytest.approx(module["ms"], rel=0.02)
    assert ACTIONS[facts.lever(graph, module["class"])] == module["lever"]


@each_module
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_speed_follows_from_the_students_counts_and_the_cited_rates(module, language):
    graph, bandwidth = work.read(module["work"].strip()), rate(module, "TB/s", language)
    assert counted(module["bytes"]) == pytest.approx(facts.bytes_of(graph, module["class"]), rel=0.01)
    moving, calculating = counted(module["bytes"]) / bandwidth * 1000, 0.0
    if "flops" in module:
        assert counted(module["flops"]) == pytest.approx(facts.flops(graph, module["class"]), rel=0.01)
        calculating = counted(module["flops"]) / rate(module, "TFLOP/s", language) * 1000
    assert max(moving, calculating) == pytest.approx(module["ms"], rel=0.02)
    assert (moving > calculating) == (module["binds"] == "memory")


@each_module
@pytest.mark.parametrize("question", ["binds", "fast", "lever"])
def test_each_answer_cites_sentences_of_the_first_three_lessons(module, question):
    cites = module["cites"][question]
    assert cites and set(module["cites"]) == {"binds", "fast", "lever"}
    for slug, *cited in cites:
        for language, sentence in zip(LANGUAGES, cited, strict=True):
            assert sentence in TEXTS[language][slug], (slug, sentence)


def test_no_answer_is_contradicted_by_a_sentence_that_another_answer_cites():
    """A sentence that is cited for one lever is cited for no other."""
    levers: dict[str, set[str]] = {}
    for module in MODULES:
        for _, sentence, _ in module["cites"]["lever"]:
            levers.setdefault(sentence, set()).add(module["lever"])
    assert all(len(answers) == 1 for answers in levers.values()), levers
