"""The end of a session whose trials have no time says which were right, and which nobody could verify."""

import pytest

from engine.session import events
from engine.session.journal import Journal
from engine.session.outcome import summary
from engine.strategies.state import State

WRONG = "No trial gave a correct result."


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["gaming", "library only"], WRONG),
        (["clean"], "No trial has a time: 1 kernel gave a correct result."),
        (["unverified", "unverified"], "No trial has a time: 2 kernels could not be verified here."),
        (
            ["clean", "unverified", "gaming"],
            "No trial has a time: 1 kernel gave a correct result, and 1 kernel could not be verified here.",
        ),
        ([], WRONG),
    ],
)
def test_it_is_no_correct_result_only_where_none_was_right_or_unknown(verdicts, words):
    log: list[events.Event] = [events.TrialProposed(1, "f16", "0" * 64, "", "a kernel", "")]
    log += [events.TrialUntimed(n, verdict, "f16", "validate", "", "") for n, verdict in enumerate(verdicts, 1)]
    journal = Journal(log, {}.__getitem__, lambda: 0.0)
    assert summary("It ended.", journal, ["f16"], State()) == f"It ended. {words}"


def test_a_reason_without_a_full_stop_gets_one_before_the_next_sentence():
    journal = Journal([events.TrialProposed(1, "f16", "0" * 64, "", "a kernel", "")], {}.__getitem__, lambda: 0.0)
    assert summary("expected a name", journal, ["f16"], State()) == f"expected a name. {WRONG}"


def test_trials_that_failed_are_counted_by_step_with_the_first_ones_words():
    log: list[events.Event] = [events.TrialProposed(1, "f16", "0" * 64, "", "a kernel", "")]
    log += [
        events.TrialFailed(1, "check", "E101", "Line 2: expected\n a name."),
        events.TrialFailed(2, "validate", "wrong_result", "wrong"),
        events.TrialFailed(3, "check", "E101", "expected a number"),
    ]
    words = summary("It ended.", Journal(log, {}.__getitem__, lambda: 0.0), ["f16"], State())
    assert words == (
        f"It ended. {WRONG} Failed trials: 2 at check, 1 at validate; the first one, trial 1: Line 2: expected a name."
    )
