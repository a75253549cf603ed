"""A session of `two_stage`: verified first, then searched; each part is shown, and a wrong template goes back."""

import json

import pytest

from engine.devices import TrialError
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies import registry
from engine.strategies.api import Reply
from tests.engine.session.scripted import KernelDevice, NoGpu, Searching, of

TWO = registry.available()["two_stage"]
TOPICS = ["shapes", "template", "space", "search", "effects", "feedback"]
TEXT = """\
program scale(x: f16[1024, 4096], w: f16[4096, 4096], b: f32[4096]) -> f16[1024, 4096] {
  y = gemm(x, w.T) { tile {m}x128x64  swizzle {s}  epilogue relu(acc + b[n]) * 2.0 }
  return y
}
"""
PROGRAM = {
    "text": TEXT, "cls": "f16", "change": "a template", "inequalities": [{"expression": "m * 128 <= 16384"}],
    "parameters": [{"name": "m", "values": [64, 128, 256], "default": 128},
                   {"name": "s", "values": [1, 2, 4], "default": 1}],
}  # fmt: skip
KERNEL = {
    "text": "// {v}{w}\n__global__ void k() {}\n", "cls": "f16", "change": "a kernel", "language": "cuda",
    "inequalities": [], "parameters": [{"name": "v", "values": [1, 2, 3, 4, 5], "default": 1},
                                       {"name": "w", "values": [1, 2], "default": 1}],
}  # fmt: skip
PLAN = {"decision": "template", "structure": "tiles", "parameters": []}


def scripted(replies):
    """A model that answers each role from a list; its last reply stands for the rest."""
    left = {role: list(texts) for role, texts in replies.items()}
    prompts = []

    def handler(ask, turn):
        prompts.append((ask.role, ask.prompt))
        texts = left[ask.role]
        value = texts.pop(0) if len(texts) > 1 else texts[0]
        return Reply(value if isinstance(value, str) else json.dumps(value))

    return handler, prompts


def play(replies, trials=30, device=None, measured=False, **options):
    handler, prompts = scripted({"plan": [PLAN], "test": [{"corners": []}], "tune": [{"starts": [], "order": []}]}
                                | replies)  # fmt: skip
    searching = Searching(TWO(TWO.Options(**options)), device, handlers={"ask": handler}, trials=trials)
    searching.problem.device_kind = "measured" if measured else "predicted"
    return searching.run(), searching, prompts


def shown(log, topic):
    return [e.facts for e in of(log, events.Shown) if e.topic == topic]


def test_the_record_shows_each_part_of_the_study_in_its_order():
    player = Player()
    searching = Searching(TWO(TWO.Options(rounds=2, evaluations=3)), trials=12,
                          handlers={"ask": lambda ask, turn: Reply(player.reply(ask.prompt))})  # fmt: skip
    log = searching.run()
    topics = [e.topic for e in of(log, events.Shown)]
    assert list(dict.fromkeys(topics)) == TOPICS and topics.count("feedback") == 2
    roles = [e.role for e in of(log, events.Asked) if e.verb == "ask"]
    assert list(dict.fromkeys(roles)) == ["plan", "generate", "test", "tune"]
    assert all(len(json.dumps(e.facts)) < 40_000 for e in of(log, events.Shown))
    first, judged = shown(log, "template")[0], of(log, events.TrialJudged)
    assert first["right"] and first["trial"] == judged[0].trial == 1  # verified before anything is tuned
    for e in of(log, events.TrialProposed):
        assert e.trial == 1 or e.parent or e.trial == shown(log, "template")[1]["trial"]


def test_the_search_evaluates_allowed_configurations_alone_and_its_effects_follow():
    log, searching, _ = play({"generate": [PROGRAM]}, rounds=1)
    space, effects = shown(log, "space")[0], shown(log, "effects")[0]
    assert (space["total"], space["allowed"]) == (9, 6) and space["limits"][0]["removed"] == 3
    rows = shown(log, "search")
    assert len(rows) == 5 == effects["evaluated"] and {r["settings"]["m"] for r in rows} == {64, 128}
    assert effects["why"] == "Every configuration inside the limits was evaluated."
    assert effects["best_ms"] == min(e.ms for e in of(log, events.TrialJudged))
    assert "a prediction does not vary" in effects["no_spread"] and searching.reason == "The 1 round was used."


def test_a_template_that_was_tried_is_shown_although_the_session_ends_in_the_turn_of_the_role_test():
    answer, _ = scripted({"plan": [PLAN], "generate": [PROGRAM]})

    def handler(ask, turn):
        return Reply(refusal="over_budget", reason="No tokens are left.") if ask.role == "test" else answer(ask, turn)

    searching = Searching(TWO(TWO.Options()), handlers={"ask": handler}, trials=9)
    log = searching.run()
    (facts,) = shown(log, "template")
    assert facts["right"] and facts["trial"] == 1 and searching.reason == "No tokens are left."


def test_a_wrong_template_goes_back_with_the_mistake_that_the_role_test_names():
    wrong = PROGRAM | {"text": TEXT.replace("f32[4096]", "f32[64]"), "change": "wrong"}
    testing = {"mistake": "the bias has 64 values", "fix": "give it 4096", "corners": []}
    log, _, prompts = play({"generate": [wrong, PROGRAM], "test": [testing, {"corners": []}]}, rounds=1, evaluations=1)
    assert [f["right"] for f in shown(log, "template")] == [False, True]
    assert shown(log, "template")[0]["mistake"] == "the bias has 64 values"
    again = [text for role, text in prompts if role == "generate"][1]
    assert "# The last template was not right" in again and "the bias has 64 values give it 4096" in again


def test_a_template_with_a_wrong_inequality_is_asked_for_again_before_it_costs_a_trial():
    wrong = PROGRAM | {"inequalities": [{"expression": "m > 512"}]}
    log, _, prompts = play({"generate": [wrong, PROGRAM]}, rounds=1, evaluations=1)
    assert "the default instance breaks `m > 512`" in [text for role, text in prompts if role == "generate"][1]
    assert [f["right"] for f in shown(log, "template")] == [True]


class Losing(KernelDevice):
    """Loses PyTorch's own run while the first trial is validated."""

    def validate(self, candidate):
        if candidate.trial == 1:
            raise TrialError("validate", "reference_time_limit", "PyTorch's own run was lost.")
        return super().validate(candidate)


def test_a_template_whose_trial_was_lost_may_be_tried_again():
    log, *_ = play({"generate": [PROGRAM]}, device=Losing(), rounds=1, evaluations=1)
    assert [f["right"] for f in shown(log, "template")] == [False, True]
    first, second = of(log, events.TrialProposed)[:2]
    assert first.program == second.program


def test_a_template_that_nothing_can_verify_here_is_neither_right_nor_wrong():
    log, searching, _ = play({"generate": [KERNEL]}, device=NoGpu(), form="kernel")
    (facts,) = shown(log, "template")
    assert facts["undecided"] and not facts["right"] and shown(log, "search") == []
    assert searching.reason.startswith("The template cannot be verified on this machine, so nothing is tuned:")


def test_what_breaks_a_rule_of_the_language_takes_no_trial():
    parameters = [{"name": "m", "values": [60, 128], "default": 128}, PROGRAM["parameters"][1]]
    log, *_ = play({"generate": [PROGRAM | {"parameters": parameters}]}, rounds=1)
    effects = shown(log, "effects")[0]
    assert effects["rejected"] == 3 and effects["evaluated"] == 2 and not of(log, events.TrialFailed)


def test_the_plan_reads_what_the_search_found_and_may_end_it():
    stop = PLAN | {"decision": "stop", "why": "nothing is left"}
    log, searching, prompts = play({"generate": [PROGRAM], "plan": [PLAN, stop]}, rounds=3, evaluations=2)
    assert searching.reason == "The plan ends after round 1: nothing is left"
    assert "# What the search of the last template's parameters found" in [t for r, t in prompts if r == "plan"][1]
    assert shown(log, "feedback")[0]["decision"] == "stop"


def test_starts_of_the_roles_come_first_and_those_outside_the_limits_are_left_out():
    start = {"starts": [{"settings": [{"name": "m", "value": 256}]}, {"settings": [{"name": "s", "value": "4"}]}],
             "order": ["s"]}  # fmt: skip
    corner = {"corners": [{"settings": [{"name": "m", "value": 64}]}]}
    log, *_ = play({"generate": [PROGRAM], "tune": [start], "test": [corner]}, rounds=1, screened=0)
    rows = shown(log, "search")
    assert [r["settings"] for r in rows[:2]] == [{"m": 64, "s": 1}, {"m": 128, "s": 4}]
    assert rows[0]["why"] == "corner case of the role test" and rows[1]["why"] == "start of the role tune"


def test_kernels_go_through_the_same_stages_and_the_best_is_repeated_where_times_are_measured():
    log, *_ = play({"generate": [KERNEL]}, device=KernelDevice(), measured=True, form="kernel", rounds=1, repeats=2)
    effects = shown(log, "effects")[0]
    assert effects["evaluated"] == 9 and effects["failed"] == sum(r["ms"] is None for r in shown(log, "search"))
    assert len(effects["repeats"]) == 3 and effects["spread"]["ratio"] == 1.0
    texts = [e.program for e in of(log, events.TrialProposed)]
    assert len(texts) == 12 and len(set(texts)) == 10


def test_an_opinion_is_asked_of_the_template_and_not_of_each_of_its_instances():
    verdict = {"verdict": "No issue", "reason": "it multiplies what it reads"}
    log, *_ = play(
        {"generate": [KERNEL], "opinion": [verdict]}, device=KernelDevice(), measured=True, form="kernel", rounds=1,
        opinion=True,
    )  # fmt: skip
    (facts,) = shown(log, "opinion")
    (template,) = shown(log, "template")
    assert (facts["trial"], facts["verdict"]) == (template["trial"], "No issue")
    assert len(shown(log, "search")) == 9


@pytest.mark.parametrize("with_template", [True, False])
def test_preset_configurations_take_the_place_of_the_search(with_template):
    listed = [{"m": 64, "s": 2}, {"m": 256}, {"other": 1}, {"s": 4}]
    preset = json.dumps({"template": PROGRAM if with_template else None, "configurations": listed})
    log, _, prompts = play({"generate": [PROGRAM]}, preset=preset)
    assert [r["settings"] for r in shown(log, "search")] == [{"m": 64, "s": 2}, {"m": 128, "s": 4}]
    assert shown(log, "effects")[0]["why"].endswith("evaluated; 2 are none of this template.")
    assert {role for role, _ in prompts} == (set() if with_template else {"plan", "generate", "test"})


BOTH = 'write {"template": {..}, "configurations": [{..}]}, or one of both'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON: Expecting property name enclosed in double quotes, at line 1, column 2"),
        ("[" * 5000, "no JSON that is read: it has too many levels or digits"),
        ("[]", BOTH),
        ("{}", BOTH),
        ('{"template": null, "configurations": []}', BOTH),
        ('{"configuration": [{"m": 1}]}', BOTH),
        ('{"configurations": 3}', "configurations: write a list"),
        ('{"configurations": [3]}', "configurations.0: write an object"),
        ('{"configurations": [{"m": [1]}]}', "configurations.0.m: write a whole number or a word"),
        ('{"configurations": [{"m": 1}], "temlate": {}}', "temlate: there is no such name; the names are template and"),
        ('{"template": {"text": "x"}}', "template.cls: it is missing"),
        ('{"template": {"text": "x", "cls": "f16", "language": "cuda"}}', "template.parameters: it is missing"),
    ],
)
def test_the_mistake_in_a_preset_is_named_with_the_options(text, words):
    with pytest.raises(ValueError) as caught:
        TWO.Options(preset=text)
    assert words in str(caught.value)


def test_a_preset_template_without_configurations_evaluates_its_default_instance_alone():
    log, *_ = play({}, preset=json.dumps({"template": PROGRAM}))
    assert shown(log, "search") == [] and len(of(log, events.TrialProposed)) == 1
    assert shown(log, "effects")[0]["why"] == (
        "No configuration is preset, so the default instance alone was evaluated."
    )


def test_a_budget_that_ends_in_the_search_is_said_and_what_was_found_is_shown():
    log, searching, _ = play({"generate": [PROGRAM]}, trials=3)
    assert searching.code == "budget_used" and shown(log, "effects")[0]["why"].startswith("The search stopped:")
    assert shown(log, "feedback")[0]["why"].startswith("Nothing went back:")
