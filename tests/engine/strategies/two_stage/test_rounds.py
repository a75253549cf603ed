"""What went back to the plan changes the next round: nothing that was evaluated is evaluated again."""

import json
from dataclasses import replace

from engine.session import events
from tests.engine.session.scripted import KernelDevice, of
from tests.engine.strategies.two_stage.test_stages import KERNEL, PROGRAM, play, shown

RENAMED = json.loads(json.dumps(PROGRAM).replace("{m}", "{rows}").replace('"m"', '"rows"').replace("m * ", "rows * "))
WIDER = KERNEL | {"parameters": [{"name": "v", "values": [1, 2, 3, 4, 5, 6], "default": 1}, KERNEL["parameters"][1]]}


def test_a_template_that_earlier_rounds_searched_ends_the_session_and_costs_nothing():
    log, searching, prompts = play({"generate": [PROGRAM, RENAMED]}, rounds=4)
    assert searching.reason.startswith("Round 2 ended before it tried anything: earlier rounds evaluated all 6 config")
    assert len(of(log, events.TrialProposed)) == 6
    assert [role for role, _ in prompts] == ["plan", "generate", "test", "tune", "plan", "generate"]
    first, second = shown(log, "template")
    assert second["repeated"] == searching.reason and second["trial"] == first["trial"] == 1
    assert [facts["round"] for facts in shown(log, "effects")] == [1]


def test_prompts_of_the_next_round_name_what_was_searched():
    _, _, prompts = play({"generate": [PROGRAM]}, rounds=2)
    first, second = [text for role, text in prompts if role == "generate"]
    assert "- a template [f16] m: 64, 128, 256; s: 1, 2, 4" in second and "Templates that were searched" not in first
    again = [text for role, text in prompts if role == "plan"][1]
    assert "One that was evaluated is not evaluated again." in again


class NewOnesAreSlow(KernelDevice):
    """The values that the second template adds are slower than every other."""

    def measure(self, candidate, baseline):
        done = super().measure(candidate, baseline)
        return replace(done, time=replace(done.time, ms=9.0)) if "// 6" in candidate.text else done


def test_a_wider_template_evaluates_its_new_configurations_alone_and_repeats_no_best_again():
    log, *_ = play(
        {"generate": [KERNEL, WIDER]}, device=NewOnesAreSlow(), measured=True, form="kernel", rounds=2, repeats=1
    )  # fmt: skip
    first, second = shown(log, "effects")
    assert (first["evaluated"], first["known"], second["evaluated"], second["known"]) == (9, 0, 2, 10)
    assert {row["settings"]["v"] for row in shown(log, "search") if row["round"] == 2} == {6}
    assert second["trial"] == first["trial"] and first["repeats"] and second["repeats"] == []
    assert second["no_spread"] == "The best configuration is one of an earlier round, which repeated its own best."
