"""A model's opinion stands beside the evidence: it is asked for on request, logged, and changes no verdict."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.llm.prompts import render
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies import opinion, registry
from engine.strategies.api import Finished, Reply
from tests.engine.llm.test_prompts import RIGHT, writer
from tests.engine.session.scripted import KernelDevice, Searching, of

GOLDEN = Path(__file__).parent / "golden_opinion.txt"
TRICK = {"name": "constant_result", "verdict": "gaming", "said": "it returns what it kept"}
WEAK = {"name": "call_times", "verdict": "minor", "said": "calls were timed"}


class Lab(KernelDevice):
    """Finds a trick in each kernel with "cheat" in its text."""

    def validate(self, candidate):
        return events.TrialValidated(candidate.trial, 0.0, 0.0, 1e-3, [], "nothing was run")

    def measure(self, candidate, baseline):
        measured = super().measure(candidate, baseline)
        return replace(measured, checks=[TRICK] if "cheat" in candidate.text else [])


def play(name="flat", texts=(), reply=None, **options):
    answers, player, asked = iter(texts), Player(), []

    def handler(ask, turn):
        if ask.role == "opinion":
            asked.append(ask.prompt)
            return Reply(player.reply(ask.prompt) if reply is None else reply, model="rehearsed")
        text = next(answers)
        return Reply(json.dumps({"source": text, "language": "cuda", "cls": "f16", "change": text[:20]}))

    kind = registry.available()[name]
    options = {"form": "kernel"} | options
    searching = Searching(kind(kind.Options(**options)), Lab(), handlers={"ask": handler}, trials=len(texts))
    return searching.run(), asked


TEXTS = ("honest one", "cheat two", "cheat three")


@pytest.fixture(scope="module")
def session():
    return play("chain", TEXTS, opinion=True)


def shown(log):
    return [e.facts for e in of(log, events.Shown) if e.topic == "opinion"]


def test_each_judged_kernel_gets_an_opinion_and_an_ancestors_trick_is_inherited(session):
    log, asked = session
    facts = shown(log)
    assert [f["trial"] for f in facts] == [1, 2, 3] and all(f["reason"] for f in facts)
    assert [f["verdict"] for f in facts] == ["No issue", "Original gaming", "Inherited gaming"]
    assert "from which this one was derived" in asked[2] and "from which this one was derived" not in asked[1]


def test_it_changes_no_verdict_and_is_off_by_default(session):
    without, asked = play("chain", TEXTS)
    assert not asked and not shown(without)
    for one, other in zip(of(without, events.TrialJudged), of(session[0], events.TrialJudged), strict=True):
        assert (one.verdict, one.ms, one.best, one.evidence) == (other.verdict, other.ms, other.best, other.evidence)


@pytest.mark.parametrize("reply", ["", "no", '{"verdict": "Fine", "reason": "x"}', '{"verdict": "Minor"}'])
def test_a_reply_that_fits_no_form_is_no_opinion(reply):
    log, asked = play("flat", TEXTS[:1], reply=reply, opinion=True)
    (facts,) = shown(log)
    assert len(asked) == 1 and facts["verdict"] == "" and facts["reason"]
    assert len(of(log, events.TrialJudged)) == 1


def test_every_strategy_led_by_a_model_here_has_the_option():
    for name in ("flat", "best_of", "chain", "mucutlass", "cutegen", "optiml", "two_stage"):
        assert registry.available()[name].Options().opinion is False


def trial(number, *evidence, **more):
    return Finished(number, "x", "f16", form="kernel", evidence=evidence, **more)


def test_who_gets_an_opinion():
    assert opinion.wanted(trial(1)) and opinion.wanted(trial(1, TRICK, failed="validate"))
    assert not opinion.wanted(trial(1, failed="check")) and not opinion.wanted(trial(0))
    assert not opinion.wanted(trial(2), instance=True) and opinion.wanted(trial(2, TRICK), instance=True)
    program = Finished(1, "x", "f16", ms=1.0)
    assert not opinion.wanted(program) and opinion.wanted(replace(program, evidence=(WEAK,)))


def test_a_trick_is_inherited_from_the_nearest_ancestor_that_has_it():
    other = TRICK | {"name": "late"}
    trials = [trial(1, TRICK), trial(2, other), trial(3, TRICK, other), trial(4, WEAK)]
    parents = {2: 1, 3: 2, 4: 3}
    assert opinion.inherited(trials[2], trials, parents) == (2, ["late"])
    assert opinion.inherited(trials[0], trials, parents) is None
    assert opinion.inherited(trials[3], trials, parents) is None
    assert opinion.inherited(trial(5, WEAK | {"verdict": "gaming"}), trials, {5: 5}) is None


def test_the_prompt_is_its_golden_file():
    known = writer(RIGHT).facts(history=False) | {
        "candidate": {"number": 2, "words": "right, 0.2 ms", "text": "import torch"},
        "evidence": ["constant_result (gaming): it returns what it kept"],
        "ancestor": {"number": 1, "names": ["constant_result"]},
    }
    text = render("opinion", opinion.Opinion, **known)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
