"""The limit of a typed module at other sizes: a named number at its top is given other values."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, paste

MODULE = '''"""
N = 7 is a line of this text.
"""
import torch
from torch import nn

ROWS, WIDTH = 512, 2 * 256  # two sizes
DEPTH = 1_024


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(DEPTH, WIDTH)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, DEPTH)]
'''


@pytest.fixture
def page(open_page):
    page = open_page("/")
    paste(page, MODULE)
    expect(page.locator("#size-name option").first).to_have_text("ROWS = 512", timeout=90_000)
    return page


def test_the_named_sizes_are_offered_and_each_value_has_its_limit(page, complaints):
    sizes = page.get_by_label("Size", exact=True)
    expect(sizes.locator("option")).to_have_text(["ROWS = 512", "WIDTH = 512", "DEPTH = 1024"])
    sizes.select_option("WIDTH = 512")
    values = page.get_by_label("Values", exact=True)
    expect(values).to_have_value("128, 256, 512, 1024")
    values.fill("512, 8192")
    values.press("Enter")  # the keyboard is enough
    rows = page.locator("#size-table tbody tr")
    expect(rows).to_have_count(2, timeout=90_000)
    expect(page.locator("#size-state")).to_have_text("")
    expect(rows.first).to_contain_text("this text")
    expect(rows.nth(1)).to_contain_text("µs")
    assert rows.first.locator("td").first.inner_text() != rows.nth(1).locator("td").first.inner_text()

    rows.nth(1).get_by_role("button", name="Edit with WIDTH = 8192").click()
    expect(page.locator("#editor .cm-content")).to_contain_text("ROWS, WIDTH = 512, 8192  # two sizes")
    assert not complaints, complaints


def test_a_value_that_is_no_size_is_told(page):
    page.get_by_label("Values", exact=True).fill("1024, -3")
    page.get_by_role("button", name="Show the limits").click()
    expect(page.locator("#size-state")).to_contain_text("whole numbers from 1")


def test_a_size_that_the_module_does_not_take_says_why_in_its_row(page):
    paste(page, MODULE.replace("ROWS, WIDTH = 512", "ROWS, WIDTH = 640").replace("(ROWS, DEPTH)", "(ROWS, 1024)"))
    expect(page.locator("#size-name option").first).to_have_text("ROWS = 640", timeout=90_000)
    page.get_by_label("Size", exact=True).select_option("DEPTH = 1024")
    page.get_by_label("Values", exact=True).fill("2048")
    page.get_by_role("button", name="Show the limits").click()
    expect(page.locator("#size-table tbody tr")).to_contain_text("mat1 and mat2", timeout=90_000)


def test_a_module_without_named_sizes_is_told_how_to_name_them(open_page):
    page = open_page("/")
    text = MODULE.replace("ROWS, WIDTH = 512, 2 * 256  # two sizes\nDEPTH = 1_024\n", "")
    paste(page, text.replace("ROWS", "64").replace("DEPTH", "64").replace("WIDTH", "64"))
    expect(page.locator("#limit-body")).to_contain_text("give the sizes names at the top", timeout=90_000)


def test_it_fits_a_telephone(page):
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_label("Values", exact=True).fill("256, 512")
    page.get_by_role("button", name="Show the limits").click()
    expect(page.locator("#size-table tbody tr")).to_have_count(2, timeout=90_000)
    no_sideways_scroll(page)  # the roofline, too, is drawn anew for the narrower window
