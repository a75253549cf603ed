"""The shipped lessons: no mistake, answers that sol or a recording gives, no answer in what a browser gets."""

import ast
import json
import re

import pytest

from playground import learn
from playground.learn import shelf
from playground.learn.model import KINDS

LESSONS = learn.library()
QUESTIONS = [
    pytest.param(lesson, step, id=f"{lesson.slug}-{step.id}")
    for language in learn.LANGUAGES
    for lesson in learn.library(language)
    for step in lesson.steps
    if step.question is not None
]


def test_eleven_lessons_of_less_than_ten_minutes_have_no_mistake():
    assert shelf.mistakes() == {}
    assert len(LESSONS) >= 11 and all(lesson.minutes < 10 for lesson in LESSONS)
    assert LESSONS[0].slug == "roofline" and len({lesson.slug for lesson in LESSONS}) == len(LESSONS)


def words(html: str) -> int:
    return len(re.sub(r"<[^>]*>", " ", html).split())


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_the_minutes_of_a_lesson_are_those_of_a_slow_reader(lesson):
    """180 words a minute (adults read about 240 silently, https://doi.org/10.1016/j.jml.2019.104047), and for each
    line of code 2 s, for each question 36 s, for each figure 24 s, for each session 30 s."""
    count = seconds = 0.0
    for step in lesson.steps:
        count += words(step.title) + words(step.body_html)
        for block in step.blocks:
            seconds += (
                2 * len(block.get("text", "").split("\n")) if block["kind"] in ("work", "program", "module") else 0
            )
            seconds += (30 if block["figure"] == "session" else 24) if block["kind"] == "figure" else 0
            count += words(block.get("title", "")) + words(block.get("caption", ""))
        if q := step.question:
            count += words(q.ask_html) + sum(words(o.html) for o in q.options) + words(q.because_html)
            seconds += 36
    assert count / 180 + seconds / 60 <= lesson.minutes < 10


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_a_lesson_goes_from_reading_to_the_reason(lesson):
    kinds = [step.kind for step in lesson.steps]
    assert kinds[0] == "read" and kinds[-1] == "why" and set(kinds) <= set(KINDS)
    assert {"predict", "compare"} <= set(kinds), kinds
    assert {"run", "replay"} & set(kinds), kinds
    assert all(step.hints for step in lesson.steps if step.question), "each question has a hint"


@pytest.mark.parametrize(("lesson", "step"), QUESTIONS)
def test_the_right_answer_is_computed_and_common_mistakes_have_a_reason(lesson, step):
    question = step.question
    right = question.right.value()
    outcome = learn.check(step, right)
    assert outcome.right and outcome.html and outcome.answer, outcome
    assert question.wrongs
    for wrong in question.wrongs:
        answer = wrong.value.number() if wrong.value else [wrong.code] if question.kind == "multi" else wrong.code
        refused = learn.check(step, answer)
        assert not refused.right and refused.known and refused.html and not refused.answer
    assert not learn.check(step, "x" * 300).right


def computed(expression) -> bool:
    """Whether an expression asks `sol` or a recording, itself or through a value of its lesson."""
    if expression is None:
        return False
    for node in ast.walk(expression.tree):
        called = isinstance(node, ast.Call) and node.func.id not in ("abs", "max", "min", "round")
        if called or (isinstance(node, ast.Name) and computed(expression.scope.values.get(node.id))):
            return True
    return False


@pytest.mark.parametrize(("lesson", "step"), QUESTIONS)
def test_no_answer_is_typed_in(lesson, step):
    assert computed(step.question.right), step.question.right.text


@pytest.mark.parametrize("language", learn.LANGUAGES)
def test_no_answer_and_no_reason_reaches_a_browser(language):
    for lesson in learn.library(language):
        form = learn.lesson_json(lesson)
        text = json.dumps(form, ensure_ascii=False)
        assert "?" not in [s["title"] for s in form["steps"]] and '"right"' not in text and "expression" not in text
        for step, shown in zip(lesson.steps, form["steps"], strict=True):
            if step.question:
                assert set(shown["question"]) == {"kind", "html", "options", "unit", "within"}
                for wrong in step.question.wrongs:
                    assert json.dumps(wrong.html, ensure_ascii=False)[1:-1] not in text
                assert json.dumps(step.question.because_html, ensure_ascii=False)[1:-1] not in text


@pytest.mark.parametrize(
    ("answer", "unit", "number"),
    [
        ("0.07", "ms", 0.07), ("70 µs", "ms", 0.07), ("70us", "ms", 0.07), ("0.07 ms", "ms", 0.07), ("1,280", "", 1280),
        ("1.5e3", "", 1500), ("12 %", "%", 12), ("12%", "", 0.12), ("134 MB", "MB", 134), ("0.134GB", "MB", 134),
        ("2.66x", "x", 2.66), (3, "", 3), ("", "", None), ("many", "", None), ("12 ms", "MB", None), (True, "", None),
        (float("nan"), "", None), ("1e999", "", None), ("-", "", None), (None, "", None), ([1], "", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(answer, unit, number):
    from playground.learn.checking import number as read

    assert read(answer, unit) == (None if number is None else pytest.approx(number))


def test_the_answers_come_from_sol_and_not_from_the_text(monkeypatch):
    """Another H200 gives other answers."""
    from dataclasses import replace

    from playground.learn import facts

    real = facts.load
    step = learn.lesson("ridge-point").step("ridge-h200")
    before = step.question.right.number()
    monkeypatch.setattr(facts, "load", lambda name: replace(real(name), bandwidth=2 * real(name).bandwidth))
    assert step.question.right.number() == pytest.approx(before / 2)


@pytest.mark.parametrize(("language", "labels"), [("en", ["1 row", "16 rows"]), ("ko", ["1 행", "16 행"])])
def test_a_size_stands_with_its_name_in_the_singular_or_plural(language, labels):
    step = learn.lesson("roofline", language).step("move-point")
    figure = next(block for block in step.blocks if block.get("figure") == "roofline")
    assert [point["label"] for point in figure["points"]][:2] == labels


def test_every_function_of_an_answer_says_how_it_is_called():
    from playground.learn import facts

    for name in facts.FUNCTIONS:
        called, gives = facts.use(name)
        assert called.startswith(f"{name}(") and called.endswith(")") and gives, name
