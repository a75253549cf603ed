"""The questions of the test: every draw can be asked in both languages, and `sol` computes every answer."""

import itertools
import re

import pytest

from playground import learn
from playground.learn import check
from playground.learn.exam import bank, draw

VARIANTS = bank.variants()


def every_draw(variant: bank.Variant) -> list[dict[str, str]]:
    return [dict(zip(variant.draws, row, strict=True)) for row in itertools.product(*variant.draws.values())]


@pytest.mark.parametrize("key", VARIANTS, ids="-".join)
def test_every_draw_of_a_question_has_an_answer_and_reasons(key):
    variant, rights = VARIANTS[key], set()
    for values in every_draw(variant):
        (step,) = draw.lesson({variant.skill: {"variant": variant.name, "values": values}}).steps
        question = step.question
        right = question.right.value()
        outcome = check(step, right)
        assert outcome.right and outcome.html
        if question.kind == "choice":
            for option in question.options:
                assert check(step, option.code).right == (option.code == right)
                assert option.code == right or check(step, option.code).known, "every wrong option has its reason"
        elif question.kind == "number":
            assert not check(step, right * 1.3 + 1).right
        rights.add(str(right))
    assert len(rights) > 1 or variant.skill == "lever", "the answer depends on the draw"


def test_each_answer_of_a_skill_with_options_can_be_right():
    for skill in bank.skills():
        rows = [
            draw.lesson({skill: {"variant": name, "values": values}}).steps[0].question
            for (of, name), variant in VARIANTS.items() if of == skill for values in every_draw(variant)
        ]  # fmt: skip
        if rows[0].kind == "choice":
            never = {o.code for o in rows[0].options} - {row.right.value() for row in rows}
            assert never <= {"both", "cache", "crashes"}, "only a common mistake is never right"


@pytest.mark.parametrize("language", [one for one in learn.LANGUAGES if one != "en"])
def test_the_questions_are_complete_in_korean(language):
    other = bank.variants(language)
    assert list(other) == list(VARIANTS)
    for key, variant in VARIANTS.items():
        words = [re.findall(r"^(ask|because|option \w+|wrong .+?): ", one.text, re.M) for one in (variant, other[key])]
        assert words[0] == words[1], key
        (step,) = draw.lesson({key[0]: {"variant": key[1], "values": every_draw(variant)[0]}}, language).steps
        shown = [step.title, step.question.ask_html, step.question.because_html]
        assert step.language == language and all(re.search("[가-힣]", text) for text in shown)


def test_no_lesson_shows_a_module_of_the_test():
    shown = {" ".join(b["text"].split()) for lesson in learn.library() for s in lesson.steps for b in s.blocks
             if "text" in b}  # fmt: skip
    for (skill, name), variant in VARIANTS.items():
        for values in every_draw(variant):
            (step,) = draw.lesson({skill: {"variant": name, "values": values}}).steps
            assert not {" ".join(block["text"].split()) for block in step.blocks} & shown


def test_every_skill_is_taught_and_every_lesson_names_skills():
    taught = {skill for lesson in learn.library() for skill in lesson.skills}
    assert taught == set(bank.skills()) and all(lesson.skills for lesson in learn.library())


def test_two_forms_ask_for_the_same_skills_with_other_modules():
    for seed in range(20):
        first, second = draw.forms(bank.skills(), seed)
        assert list(first) == list(second) == list(bank.skills())
        assert (first, second) == draw.forms(reversed(bank.skills()), seed), "a seed gives the same forms"
        for skill in first:
            assert first[skill] != second[skill]
            one, other = (draw.lesson({skill: form[skill]}).steps[0].question for form in (first, second))
            if one.kind == other.kind == "number":
                assert one.right.number() != pytest.approx(other.right.number(), rel=one.within)
    assert draw.forms(bank.skills(), 1) != draw.forms(bank.skills(), 2)


def test_a_form_whose_question_is_gone_says_so():
    with pytest.raises(ValueError, match="no question"):
        draw.lesson({"limit": {"variant": "gone", "values": {}}})


def test_a_teachers_lesson_names_skills_and_a_wrong_one_has_its_line():
    text = "---\ntitle: Mine\nminutes: 5\nskills: limit, waves\n---\n\n## read a: A\n\nText.\n"
    lesson, mistakes = learn.read(text)
    assert lesson.skills == ("limit", "waves") and mistakes == []
    _, mistakes = learn.read(text.replace("waves", "dancing"))
    assert [(m.line, "dancing" in m.text, "limit" in m.fix) for m in mistakes] == [(4, True, True)]


@pytest.mark.django_db
def test_the_page_for_own_lessons_lists_the_skills(client):
    page = client.get("/learn/own").content.decode()
    for (skill, _), variant in VARIANTS.items():
        assert f"<code>{skill}</code></td>\n<td>{variant.title}</td>" in page
