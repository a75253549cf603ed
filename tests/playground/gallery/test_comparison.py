"""Two times are divided by each other only where module, kind, device and driver agree; otherwise it says why not."""

from dataclasses import replace

import pytest

from engine.session import recording
from engine.session.fold.reduce import fold
from playground import recordings
from playground.gallery import compare
from playground.gallery.comparison import Conditions, Ratio, conditions, differences, ratio

MEASURED = Conditions("sha", "module", "measured", "NVIDIA H200", "580.159.04", "")
PREDICTED = Conditions("sha", "module", "predicted", "h200", "", "t_attainable")


def view(name):
    return fold(recording.read(recordings.FOLDER / f"{name}.jsonl").rows)


@pytest.mark.parametrize("same", [MEASURED, PREDICTED])
def test_times_under_equal_conditions_have_no_difference(same):
    assert differences(same, replace(same)) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"module": "other"}, "They optimise different modules."),
        ({"source_kind": "program"}, "They optimise different modules."),
        ({"device": "NVIDIA H100"}, "A's device is NVIDIA H200, B's is NVIDIA H100."),
        ({"driver": "570.1"}, "A's driver is 580.159.04, B's is 570.1."),
        ({"driver": ""}, "A's driver is 580.159.04, B's is not recorded."),
        ({"device": ""}, "A's device is NVIDIA H200, B's is not recorded."),
    ],
)
def test_each_condition_that_differs_is_named(changed, reason):
    assert differences(MEASURED, replace(MEASURED, **changed)) == [reason]


def test_measured_and_predicted_times_are_never_divided():
    assert differences(MEASURED, PREDICTED) == ["A's times are measured, B's are predicted."]


def test_what_neither_log_has_is_a_difference_too():
    unknown = Conditions("", "module", "", "", "", "")
    assert len(differences(unknown, unknown)) == 3
    assert differences(replace(MEASURED, driver=""), replace(MEASURED, driver="")) == [
        "A's driver is not recorded, B's is not recorded."
    ]
    other = replace(PREDICTED, model="t_other")
    assert differences(PREDICTED, other) == ["A's times are from the model t_attainable, B's from t_other."]


def test_the_conditions_are_those_of_the_trial_itself():
    measured, predicted = view("linear_div_gelu"), view("agent_residual")
    own = conditions(measured, measured.trials[4])
    assert (own.kind, own.device, own.driver) == ("measured", "NVIDIA H200", "580.159.04")
    assert own.module == measured.source and own.source_kind == "module"
    own = conditions(predicted, predicted.trials[5])
    assert (own.kind, own.device, own.driver, own.model) == ("predicted", "h200", "", "t_attainable")


def test_a_ratio_has_an_interval_from_both_samples():
    trials = view("linear_div_gelu").trials
    slow, fast = trials[8], trials[1]
    result = ratio(slow, fast)
    assert result.value == pytest.approx(0.327 / 0.295, rel=0.01) and result.low < result.value < result.high
    assert result.clear and not ratio(fast, trials[6]).clear
    assert ratio(fast, slow).value == pytest.approx(1 / result.value)


def test_a_predicted_ratio_within_the_models_error_is_not_clear():
    trials = view("agent_residual").trials
    assert not ratio(trials[4], trials[5]).clear
    assert ratio(trials[1], trials[5]).clear


def test_a_trial_without_a_time_has_no_ratio():
    trials = view("kernels_by_hand").trials
    assert ratio(trials[3], trials[6]) is None


@pytest.mark.parametrize(
    ("result", "kind", "words"),
    [
        (Ratio(1.25, 1.2, 1.3), "measured", "B is 1.25 times as fast (95% interval 1.20 to 1.30)."),
        (Ratio(0.8, 0.75, 0.85), "measured", "A is 1.25 times as fast (95% interval 1.18 to 1.33)."),
        (Ratio(1.0, 0.98, 1.02), "measured", "No clear difference: A takes 0.98 to 1.02 times as long as B."),
        (Ratio(1.05, 0.9, 1.2), "predicted", "A takes 1.05 times as long as B, a difference within the model's error."),
        (Ratio(2.0, 1.8, 2.2), "predicted", "B is 2.00 times as fast (the model's error gives 1.80 to 2.20)."),
        (Ratio(1.5, None, None), "measured", "A takes 1.50 times as long as B."),
    ],
)
def test_a_ratio_in_words_says_who_is_faster_and_how_sure_that_is(result, kind, words):
    assert compare.ratio_words(result, kind) == words
