"""The tables of a strategy's part of a session fit a telephone: each row is a list whose cells name their columns."""

import pytest

from tests.browser.conftest import no_sideways_scroll
from tests.browser.test_empty_parts import TEMPLATE

SETTINGS = {
    "tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 4, "cluster_m": 2, "cluster_n": 1, "raster": "along_m",
}  # fmt: skip
ROWS = [
    {
        "round": 1, "trial": n, "phase": "screening", "why": "the default instance", "ms": 0.03 + n / 99,
        "best": n == 2, "outcome": "", "settings": SETTINGS, "registers": 168, "spills": 8,
    }
    for n in range(2, 6)
]  # fmt: skip
DRAW = """async ([strategy, shown]) => {
  const { draw } = await import(`/static/js/session/strategies/${strategy}.js`);
  const turns = document.getElementById("turns");
  turns.hidden = false;
  turns.replaceChildren(draw(shown, () => {}, true));
  for (const part of turns.querySelectorAll("details")) part.open = true;
}"""
WIDER = """() => [...document.querySelectorAll("#turns .turns-table")]
  .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.innerText)"""
BEFORE = "td => getComputedStyle(td, '::before').content"


@pytest.fixture
def drawn(open_page, finished):
    def page_of(width):
        page = open_page(finished["view"], width)
        facts = [("template", TEMPLATE | {"right": True}), *(("search", row) for row in ROWS)]
        page.evaluate(DRAW, ["two_stage", [{"topic": topic, "facts": f} for topic, f in facts]])
        return page

    return page_of


def test_the_table_of_a_search_is_not_wider_than_a_telephone(drawn, complaints):
    page = drawn(360)
    assert page.evaluate(WIDER) == []
    no_sideways_scroll(page)
    row = page.locator("#turns tbody tr").first.locator("td")
    assert row.first.evaluate(BEFORE) == '"Trial: "' and row.last.evaluate(BEFORE) == '"Configuration: "'
    assert "raster along_m" in row.last.inner_text()
    assert not complaints, complaints


def test_a_wide_page_keeps_its_table(drawn):
    page = drawn(1280)
    row = page.locator("#turns tbody tr").first.locator("td")
    assert row.first.evaluate(BEFORE) == "none" and page.locator("#turns thead").first.bounding_box()["height"] > 10
