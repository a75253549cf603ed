"""A step that runs starts a session that its lesson's file describes; a mistake in the description is named."""

import pytest

from engine.session.spec import SpecFields
from playground import learn
from playground.access import requests
from playground.learn import figures, recorded
from playground.sharing import pages
from tests.playground.learn.test_own_lessons import HEAD, mistakes

MODULE = "```module m\nclass Model:\n    pass\n```\n"
RUN = HEAD + MODULE + "## run a: A\n```figure f session\ntitle: T\nmodule: m\nrecording: mlp_gelu\n{}\n```"


@pytest.mark.parametrize("language", learn.LANGUAGES)
def test_each_run_step_starts_a_session_that_the_server_takes(language):
    steps = [step for lesson in learn.library(language) for step in lesson.steps if step.kind == "run"]
    assert len(steps) >= 7
    for step in steps:
        (figure,) = [block for block in step.blocks if block.get("figure") == "session"]
        spec = requests.spec_of(SpecFields(**figure["request"]))
        assert spec["trials"] <= figures.MOST_TRIALS and figure["caption"] and figure["title"]
        assert figure["recording"]["id"] in {recorded.session_id(name) for name in recorded.names()}


def test_a_lesson_shows_only_panes_that_may_be_framed():
    assert set(figures.PANES) == set(pages.PANES)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (RUN.format("").replace("module: m", "module: n"), 12, "no module block 'n'"),
        (RUN.format("").replace("module: m", "program: m"), 12, "no program block 'm'"),
        (RUN.format("").replace("mlp_gelu", "nothing"), 13, "no recorded session 'nothing'"),
        (RUN.format("trials: many"), 14, "no whole number"),
        (RUN.format("trials: 0"), 14, "trials: "),
        (RUN.format("trials: 50"), 14, "at most 12 trials"),
        (RUN.format("class: f17"), 14, "classes: "),
        (RUN.format("eps: near"), 14, "no share"),
        (RUN.format("pane: all"), 14, "no pane 'all'"),
        (RUN.format("").replace("Model", "Other"), 6, "no class Model"),
        (RUN.format("").replace("    pass", "    pass ="), 7, "no Python"),
    ],
)
def test_a_mistake_in_a_session_is_named_with_its_line(text, line, words):
    assert any(number == line and words in fault for number, fault in mistakes(text)), mistakes(text)


def test_a_session_without_a_mistake_is_its_request():
    lesson, faults = learn.read(RUN.format("trials: 3\neps: 10%\nwindow: 2\nclass: f16"))
    assert faults == []
    (figure,) = lesson.step("a").blocks
    assert figure["request"] == {
        "title": "T", "source": "class Model:\n    pass\n", "source_kind": "module", "classes": ["f16"], "trials": 3,
        "window": 2, "eps": 0.1,
    }  # fmt: skip
