"""What the owner hands in before a strategy begins is the first trial, and what a model starts from."""

import pytest

from engine.llm.prompts import fence
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Reply
from tests.engine.session.scripted import Searching, of
from tests.engine.strategies.test_led_by_models import strategy

OPTIONS = {
    "flat": {"attempts": 2}, "best_of": {"n": 2}, "chain": {"attempts": 2},
    "mucutlass": {"iterations": 1, "hypotheses": 1, "attempts": 2},
}  # fmt: skip
FAILS = "// of the owner: fail\n" + 'extern "C" int run(const Tensor* in) { return 1; }\n'
RIGHT = "// of the owner\n" + 'extern "C" int run(const Tensor* in) { return 0; }\n'


def play(name, kernel, answer):
    """(the log, the prompts of the role `implement`) of a session whose owner hands in a kernel at its start."""
    commands, prompts = [("try", {"program": kernel, "form": "kernel", "language": "cuda"})], []

    def control():
        return [commands.pop()] if commands else []

    def handler(ask, turn):
        if ask.role == "implement":
            prompts.append(ask.prompt)
        return Reply(answer(ask.prompt), model="scripted")

    log = Searching(strategy(name, **OPTIONS[name]), handlers={"ask": handler}, control=control, trials=4).run()
    return log, prompts


@pytest.mark.parametrize("name", OPTIONS)
def test_a_kernel_that_has_no_time_is_shown_until_a_candidate_is_right(name):
    log, prompts = play(name, FAILS, lambda prompt: "no candidate")
    first, *others = of(log, events.TrialProposed)
    assert first.by == "owner" and others and {e.parent for e in others[:1]} == {first.trial}
    assert len(prompts) >= 2 and all(prompt.count(fence(FAILS, "candidate")) == 1 for prompt in prompts)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_kernel_with_a_time_is_shown_once_and_is_the_first_parent(name):
    log, prompts = play(name, RIGHT, Player().reply)
    first, second, *_ = of(log, events.TrialProposed)
    assert first.by == "owner" and second.parent == first.trial
    assert prompts[0].count(fence(RIGHT, "candidate")) == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_without_one_no_prompt_speaks_of_it(name):
    prompts = []

    def handler(ask, turn):
        prompts.append(ask.prompt)
        return Reply(Player().reply(ask.prompt), model="scripted")

    log = Searching(strategy(name, **OPTIONS[name]), handlers={"ask": handler}, trials=2).run()
    assert of(log, events.TrialProposed)[0].parent is None
    assert not any("handed in by the person" in prompt for prompt in prompts)
