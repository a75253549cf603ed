"""The line of a right trial names the bound that its error was held to, and what set it."""

from engine.progress import line
from engine.session import events


def test_a_bound_that_is_not_the_classs_own_says_where_it_is_from():
    validated = events.TrialValidated(1, 2.4e-3, 1e-2, 3.1e-3, [], "6 rounds", "twice PyTorch's own")
    assert line(validated) == "    right: error 2.4e-03 (allowed 3.1e-03, twice PyTorch's own); 6 rounds"


def test_the_classs_own_bound_needs_no_words():
    validated = events.TrialValidated(1, 3e-4, 1e-3, 2e-3, [], "6 rounds")
    assert line(validated) == "    right: error 3.0e-04 (allowed 2.0e-03); 6 rounds"


def test_the_error_names_the_family_of_inputs_on_which_it_is_the_largest():
    checks = [
        {"family": f, "seed": 1, "error": e, "max_error": e, "pytorch_error": None}
        for f, e in (("own", 1e-4), ("closed_form", 3e-4), ("tiny", 2e-4))
    ]
    text = line(events.TrialValidated(1, 3e-4, 1e-3, 2e-3, checks, "all rows"))
    assert text == "    right: error 3.0e-04 on closed-form inputs, the most of 3 rounds (allowed 2.0e-03); all rows"
    first = [{**c, "error": c["error"] * (9 if c["family"] == "own" else 1)} for c in checks]
    assert " on the module's own inputs, the most of 3 rounds (" in line(
        events.TrialValidated(1, 9e-4, 1, 1, first, "")
    )
