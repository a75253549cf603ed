"""The trials as a tree, whatever strategy made them: each below the one that it was made from."""

import re
import urllib.request

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, timeline, until

ROWS = """async (forests) => {
  const { rowsOf } = await import("/static/js/session/trials/tree.js");
  return forests.map((parents) => rowsOf(new Map(parents.map((parent, i) => [i + 1, { parent }]))));
}"""
ITEMS = "nodes => nodes.map(n => [Number(n.dataset.node), Number(n.ariaLevel)])"


def walk(parents: list[int | None]) -> list[tuple[int, int]]:
    """(trial, level) from the roots down; a parent that does not come before its child makes a root."""
    under: dict[int | None, list[int]] = {None: []}
    for n, parent in enumerate(parents, 1):
        under[parent if parent in under else None].append(n)
        under[n] = []

    def below(n: int | None, level: int) -> list[tuple[int, int]]:
        return [row for child in under[n] for row in [(child, level), *below(child, level + 1)]]

    return below(None, 1)


def test_rows_are_in_the_order_of_a_walk_from_the_roots(checkout):
    drawn: list[list[int | None]] = [[2, 1], [1], list(range(300)), []]

    @settings(max_examples=200, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.lists(st.one_of(st.none(), st.integers(1, 30)), max_size=30))
    def gather(parents):
        drawn.append(parents)

    gather()
    for parents, rows in zip(drawn, checkout.evaluate(ROWS, drawn), strict=True):
        assert [(r["key"], r["level"]) for r in rows] == walk(parents)
        for row in rows:
            siblings = [r for r in rows if r["parent"] == row["parent"]]
            assert row["of"] == len(siblings) and siblings[row["at"] - 1] is row
            assert row["child"] == next((r["key"] for r in rows if r["parent"] == row["key"]), None)


@pytest.fixture
def recorded(app, recordings) -> str:
    """The page of a recording of the planner whose trials come from others."""
    html = urllib.request.urlopen(f"{app.url}/gallery").read().decode()
    return re.search(r'<h3><a href="(/s/[^"]+)">linear_scale_leaky<', html)[1]


def items(page) -> list[list[int]]:
    return page.locator("#tree [role=treeitem]").evaluate_all(ITEMS)


def test_the_tree_shows_where_each_trial_comes_from(app, open_page, recorded, complaints):
    page = open_page(recorded)
    page.wait_for_selector("#replay:not([hidden])")
    whole = timeline(page)
    page.get_by_role("button", name="Tree", exact=True).click()
    events = app.get(f"/api/sessions/{recorded[3:]}/events?limit=2000")["events"]
    parents = [e["data"].get("parent") for e in events if e["kind"] == "trial.proposed"]
    assert any(parents)
    expect(page.locator("#tree [role=treeitem]")).to_have_count(len(whole))  # its module is loaded now
    assert [tuple(row) for row in items(page)] == walk(parents)
    expect(page.locator("#timeline")).to_be_hidden()
    assert page.url.endswith("as=tree")
    again = open_page(page.url)
    expect(again.locator("#tree [role=treeitem]")).to_have_count(len(whole))
    again.locator("h1").click()
    again.keyboard.press("t")
    expect(again.locator("#tree")).to_be_hidden()
    assert timeline(again) == whole
    assert not complaints


def test_the_keyboard_walks_the_tree(open_page, recorded):
    page = open_page(f"{recorded}?as=tree&trial=1")
    expect(page.locator("#history-plot .main-svg").first).to_be_visible()  # the whole log is drawn
    focused = page.locator("#tree [aria-selected=true]")
    focused.focus()
    assert page.locator("#tree [tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")  # its first child
    expect(page.locator("#tree :focus")).to_have_attribute("data-node", "6")
    page.keyboard.press("ArrowLeft")  # its parent
    expect(page.locator("#tree :focus")).to_have_attribute("data-node", "1")
    page.keyboard.press("End")
    page.keyboard.press("k")
    expect(page.locator("#tree :focus")).to_have_attribute("aria-selected", "true")
    chosen = page.locator("#tree :focus").get_attribute("data-node")
    expect(page.locator(".code-bar h2")).to_have_text(f"Trial {chosen}")
    page.keyboard.press("Home")
    expect(page.locator(".code-bar h2")).to_have_text("Trial 1")


def test_trials_that_a_search_leaves_out_are_faded_not_dropped(open_page, recorded):
    page = open_page(f"{recorded}?as=tree")
    rows = page.locator("#tree [role=treeitem]")
    expect(page.locator("#tree .faded")).to_have_count(0)
    page.locator("#trials-find").fill("swizzle")
    expect(page.locator("#tree .faded")).not_to_have_count(0)
    faded, count = page.locator("#tree .faded").count(), rows.count()
    assert 0 < faded < count == 12


def test_the_focus_goes_along_between_the_list_and_the_tree(open_page, recorded, complaints):
    page = open_page(recorded)
    page.locator("#timeline [aria-current=true]").focus()
    for role in ("treeitem", "", "treeitem"):
        page.keyboard.press("t")
        where = "document.activeElement.getAttribute('role') ?? ''"
        until(page, f"document.activeElement.tagName === 'LI' && ({where}) === '{role}'")
    assert not complaints


def test_a_replay_shows_the_tree_as_it_was(open_page, recorded):
    page = open_page(f"{recorded}?as=tree")
    page.wait_for_selector("#replay:not([hidden])")
    expect(page.locator("#tree [role=treeitem]")).to_have_count(12)
    page.locator("#scrub").fill("30")
    expect(page.locator("#tree [role=treeitem]")).not_to_have_count(12)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tree_fits_a_telephone(open_page, recorded, complaints, scheme):
    page = open_page(f"{recorded}?as=tree", 360, 740, color_scheme=scheme)
    expect(page.locator("#tree [role=treeitem]").first).to_be_visible()
    no_sideways_scroll(page)
    assert not complaints
