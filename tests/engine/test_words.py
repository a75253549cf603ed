"""Sentences with a count read well for one and for many."""

import pytest

from engine.words import all_of


@pytest.mark.parametrize(
    ("many", "done", "words"),
    [
        (1, "used", "The 1 iteration was used."),
        (4, "used", "All of the 4 iterations were used."),
        (1000, "tried", "All of the 1,000 iterations were tried."),
    ],
)
def test_all_of_one_is_the_one(many, done, words):
    assert all_of(many, "iteration", done) == words
