"""The title on a session's card: whole, in a font that leaves room for it."""

import pytest
from PIL import Image, ImageDraw

from playground.sharing import cards


@pytest.fixture
def draw():
    return ImageDraw.Draw(Image.new("RGB", (cards.WIDTH, cards.HEIGHT)))


@pytest.mark.parametrize(
    ("title", "size"),
    [
        ("linear_div_gelu", 44),
        ("A linear layer 8192 to 8192, doubled, then leaky ReLU (suite59 L2/12)", 36),
        ("A gate: two kernels by hand, two that cheat, and one by a library, each of them timed like a program", 29),
    ],
)
def test_a_title_is_whole_in_the_largest_font_that_fits(draw, title, size):
    chosen, lines = cards.title_lines(draw, title)
    assert chosen == size and " ".join(lines) == title
    assert all(draw.textlength(line, font=cards._font(size)) <= cards.TEXT for line in lines)


def test_a_title_without_end_is_cut_with_an_ellipsis(draw):
    size, lines = cards.title_lines(draw, "a chain of products " * 20)
    assert (size, len(lines)) == cards.TITLE[-1] and lines[-1].endswith("...")
