"""A module that is no single program shows what is covered, what stays PyTorch and why, and each one's share."""

import dataclasses

import pytest

from engine.devices import Problem
from engine.session import events
from sol.hardware import load
from tests.browser.conftest import no_sideways_scroll
from tests.engine.planning import planned
from tests.engine.strategies.test_regions import experts

DRAW = """async (data) => {
  const { apply, initial } = await import("/static/js/session/reduce.js");
  const { Regions } = await import("/static/js/session/regions.js");
  const root = document.getElementById("charts");
  document.getElementById("regions")?.remove();
  const view = apply(initial(), data ? [{ seq: 1, kind: "covered", t: 0, data }] : []);
  new Regions(root).draw(view);
  const table = document.getElementById("regions");
  const rows = [...table.querySelectorAll("tbody tr")].map((r) => r.innerText);
  return { hidden: table.hidden, text: table.innerText, rows };
}"""


@pytest.fixture(scope="module")
def covered():
    coverage = planned(Problem("", "module", experts()), ("tf32", "f16"), load("h200"), "predicted").problem.covered
    return dataclasses.asdict(events.decode("covered", events.encode(coverage)))


@pytest.mark.parametrize("width", [1440, 360])
def test_regions_and_the_rest_stand_in_one_table(open_page, finished, complaints, covered, width):
    page = open_page(finished["view"], width)
    if width < 1000:
        page.get_by_role("tab", name="Charts").click()
    table = page.evaluate(DRAW, covered)
    assert not table["hidden"] and "2 operations stay PyTorch: slice (lines 6 and 11)" in table["text"]
    first, second, rest = table["rows"]
    assert "Region 1" in first and "linear, softmax" in first and "lines 1, 2" in first and "TF32" in first
    assert "Region 2" in second and "%" in second
    assert "slice × 2" in rest and "reads no slice in place" in rest and "lines 6, 11" in rest
    needed, has = page.evaluate(
        "() => { const w = document.querySelector('#regions .wide'); return [w.scrollWidth, w.clientWidth]; }"
    )
    assert needed <= has, "the shares are to be seen without scrolling the table"
    no_sideways_scroll(page)
    assert not complaints


def test_a_module_that_is_one_program_shows_no_table(open_page, finished):
    page = open_page(finished["view"])
    assert page.locator("#regions").is_hidden()
    assert page.evaluate(DRAW, None)["hidden"]
