"""A part of a strategy's page that is empty says why: while the session runs what it waits for, after its end what was
missing."""

import pytest

TEMPLATE = {
    "round": 1, "attempt": 1, "text": "", "language": "", "cls": "f16", "change": "", "parameters": [], "trial": 1,
    "right": False, "undecided": False, "words": "verdict unverified", "mistake": "",
    "original": {"what": "the module"},
}  # fmt: skip
WORKLOAD = {
    "class": "product", "why": "a gemm", "depths": 10, "fixes": 5, "regenerations": 3, "profile": "late",
    "reveal": 6,
}  # fmt: skip
NONE = {
    "item": "first kernel", "what": "", "base": None, "base_ms": None, "trials": [], "trial": None, "ms": None,
    "kind": "", "speedup": None, "words": "", "best": None, "best_ms": None, "fixes": 0, "regenerations": 0,
}  # fmt: skip


@pytest.fixture
def drawn(checkout):
    """drawn(strategy, [(topic, facts)..], ended): the text of the strategy's part of the page."""

    def text(strategy, shown, ended):
        script = """async ([strategy, shown, ended]) => {
          const { draw } = await import(`/static/js/session/strategies/${strategy}.js`);
          return draw(shown, () => {}, ended).textContent;
        }"""
        facts = [{"topic": topic, "facts": facts} for topic, facts in shown]
        return checkout.evaluate(script, [strategy, facts, ended])

    return text


def test_a_running_tuner_says_what_each_part_waits_for(drawn):
    text = drawn("two_stage", [], False)
    assert text.count("once a template is right") == 2 and "No template yet" in text and "Empty: n" not in text


@pytest.mark.parametrize(
    ("facts", "mark", "why"),
    [
        ({}, "✕ not right: trial 1", "no template was right, so nothing was tuned."),
        ({"undecided": True}, "◌ not verified: trial 1", "the template could not be verified here"),
        ({"right": True}, "● right: trial 1", "the session ended before the search."),
    ],
)
def test_a_tuner_that_ended_early_says_what_was_missing(drawn, facts, mark, why):
    text = drawn("two_stage", [("template", TEMPLATE | facts)], True)
    assert mark in text and text.count(f"Empty: {why}") == 5 and " yet" not in text and "so far" not in text


def test_a_default_that_nothing_beat_is_named_and_a_trial_without_registers_says_why(drawn):
    row = {"round": 1, "trial": 2, "phase": "screening", "why": "random", "ms": 0.03, "best": False, "outcome": ""}
    rows = [row | {"settings": {"m": 64}, "registers": 168}, row | {"trial": 3, "settings": {"m": 256}}]
    values = [{"value": 128, "ms": 0.02, "many": 1}]
    effects = {
        "round": 1, "why": "All done.", "effects": [{"name": "m", "values": values}], "evaluated": 2, "rejected": 0,
        "default": {"m": 128}, "default_ms": 0.02, "best": {"m": 128}, "best_ms": 0.02, "repeats": [], "spread": None,
        "no_spread": "Once.",
    }  # fmt: skip
    shown = [("template", TEMPLATE | {"right": True}), *(("search", each) for each in rows), ("effects", effects)]
    text = drawn("two_stage", shown, True)
    assert "Best: the default instance (m 128), 20.0 µs." in text and "–: no compiler named the registers" in text
    beaten = [*shown[:-1], ("effects", effects | {"best": {"m": 64}, "best_ms": 0.01})]
    assert "Best: m 64: 10.0 µs, 2.00× the default's speed." in drawn("two_stage", beaten, True)


def test_values_without_a_time_stand_beside_the_others_in_new_logs_and_in_old_ones(drawn):
    row = {"round": 1, "trial": 2, "phase": "screening", "why": "", "ms": None, "best": False, "outcome": "failed"}
    effect = {"name": "m", "values": [{"value": 128, "ms": 0.02, "many": 1}]}
    effects = {
        "round": 1, "why": "All done.", "effects": [effect], "evaluated": 2, "rejected": 0, "default": {"m": 128},
        "default_ms": 0.02, "best": {"m": 128}, "best_ms": 0.02, "repeats": [], "spread": None, "no_spread": "Once.",
    }  # fmt: skip
    parameters = [{"name": "m", "values": [64, 128, 256], "default": 128, "meaning": ""}]
    template = TEMPLATE | {"right": True, "parameters": parameters}
    shown = [("template", template), ("search", row | {"settings": {"m": 64}}), ("effects", effects)]
    old = drawn("two_stage", shown, True)
    untimed = [{"value": 64, "failed": 1}, {"value": 256, "failed": 0}]
    new = drawn("two_stage", [*shown[:2], ("effects", effects | {"effects": [effect | {"untimed": untimed}]})], True)
    assert old == new and "64failed–1" in new and "256not evaluated–0" in new


def test_a_round_that_would_repeat_another_says_so_in_each_part(drawn):
    why = "Round 2 ended before it tried anything."
    text = drawn("two_stage", [("template", TEMPLATE | {"round": 2, "right": True, "repeated": why})], True)
    assert text.count(f"Empty: {why}") == 5


def test_the_group_of_shapes_says_why_it_is_empty_and_names_the_command(drawn):
    group = {"group": "silu_and_mul", "tuned": ["16x14336"], "unseen": ["48x13824"], "why": "One shape.",
             "command": "python -m engine.bench.studies.shape_groups"}  # fmt: skip
    text = drawn("two_stage", [("shapes", group)], True)
    assert "Empty here. One shape." in text and "The study runs with python -m engine.bench" in text
    assert "tuned at 16x14336; not seen: 48x13824" in text
    none = drawn("two_stage", [("shapes", group | {"group": "", "why": "It has no group."})], True)
    assert "Empty here. It has no group. One configuration that is tuned over a group" in none


def test_a_tree_that_ended_without_a_root_says_so(drawn):
    rows = [{"title": "tiles", "why": "", "weight": 1.0, "chosen": True, "trials": [1]}]
    shown = [("mixture", {"rows": rows, "why": "It has most of the weight."})]
    assert "no first candidate is right so far" in drawn("optiml", shown, False)
    text = drawn("optiml", shown, True)
    assert "no first candidate was right." in text and "The guardrail rejected no edit." in text
    assert "so far" not in text


def test_a_depth_that_starts_from_a_slower_kernel_shows_the_best_beside_it(drawn):
    first = NONE | {"depth": 0, "state": "passed", "trials": [1], "trial": 1, "ms": 0.02, "best": 1, "best_ms": 0.02}
    second = first | {"depth": 1, "base": 1, "base_ms": 0.02, "trials": [2], "trial": 2, "ms": 0.03}
    third = first | {"depth": 2, "base": 2, "base_ms": 0.03, "trials": [3], "trial": 3, "ms": 0.04}
    text = drawn("cutegen", [("workload", WORKLOAD), *(("depth", f) for f in (first, second, third))], True)
    assert text.count("slower than the best, trial 1 20.0 µs") == 1
    assert "takes 100% longer than the best. Each depth started from" in text
    assert "from depth 6 on (product); the session ended at depth 2." in text


def test_a_kernel_that_could_not_be_verified_is_not_called_one_that_did_not_fail(drawn):
    rung = NONE | {"depth": 0, "state": "stopped", "trials": [1], "words": "verdict unverified"}
    text = drawn("cutegen", [("workload", WORKLOAD), ("depth", rung)], True)
    assert "No candidate was mended: the session ended at one that did not pass." in text
    assert "No candidate failed" not in text


def test_a_session_that_ended_before_its_first_kernel_does_not_call_it_still_being_written(drawn):
    shown = [("workload", WORKLOAD)]
    assert "still being written or mended" in drawn("cutegen", shown, False)
    text = drawn("cutegen", shown, True)
    assert "No candidate passed." in text and "No candidate was tried" in text and "still being" not in text
