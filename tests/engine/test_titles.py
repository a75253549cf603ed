"""A session's title is a whole first sentence or nothing; it is never cut inside a sentence."""

import pytest

from engine.session.titles import LONGEST, first_sentence, opening_text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Scaled tanh.", "Scaled tanh"),
        ("A linear layer\nwith a bias. The rest is long.", "A linear layer with a bias"),
        ("Attention\n\nwith everything else below", "Attention"),
        ("# y = relu(x @ w)\n# and more", "y = relu(x @ w) and more"),
        ("x" * (LONGEST + 1), ""),
        ("A sentence that goes on " * 10, ""),
        ("", ""),
    ],
)
def test_a_sentence_fits_whole_or_is_left_out(text, title):
    assert first_sentence(text) == title


def test_a_version_number_does_not_end_a_sentence():
    assert first_sentence("Block of torch 2.13 models. Fast.") == "Block of torch 2.13 models"


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_the_docstring_at_the_top_opens_a_text(quotes):
    assert opening_text(f"\n{quotes}One\ntwo.{quotes}\nimport torch") == "One\ntwo."


def test_comments_at_the_top_open_a_text():
    assert first_sentence(opening_text("# one thing\n# more of it.\nprogram p() {}")) == "one thing more of it"
