"""The page draws the figures that the server builds: in its own colours, for the trial that is chosen, as they were."""

import json
import re
import time

import pytest
from playwright.sync_api import expect

from sol.figures import palette
from tests.browser.conftest import no_sideways_scroll, until

LIVE = ("roofline", "history", "breakdown")
THEME = """async () => {
  const { TOKENS, themed } = await import("/static/js/chart_theme.js"), { CLASS } = await import("/static/js/marks.js");
  const layout = { shapes: [{ line: { color: "#757575" } }] };
  const figure = { data: [{ marker: { color: ["#0072B2", "#123456"] } }], layout };
  const known = [...document.styleSheets].flatMap((s) => [...s.cssRules]).map((r) => r.cssText).join(" ");
  const missing = Object.values(TOKENS).filter((token) => !known.includes(`${token}:`));
  const shapes = Object.fromEntries(Object.entries(CLASS).map(([cls, { shape }]) => [cls, shape]));
  return { tokens: Object.keys(TOKENS), missing, shapes, drawn: themed(figure) };
}"""
PLOT = "document.getElementById('{}-plot')"


@pytest.fixture
def page(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#history-plot .main-svg", timeout=90_000)
    page.wait_for_selector("#limit:not(:empty)")  # the last that can move a chart
    return page


def traces(page, name):
    return page.evaluate(f"{PLOT.format(name)}.data.map((t) => ({{ name: t.name, selectedpoints: t.selectedpoints }}))")


def test_the_pages_colours_and_shapes_are_those_of_the_palette(open_page):
    theme = open_page("/").evaluate(THEME)
    inks = {palette.INK, palette.MUTED, palette.GRID, palette.FAINT, palette.LIMIT, palette.BAD}
    inks |= {*palette.COLOUR.values(), *(ink for ink, _ in palette.PARTS.values())}
    assert set(theme["tokens"]) == inks and theme["shapes"] == palette.SHAPE and not theme["missing"]
    blue, other = theme["drawn"]["data"][0]["marker"]["color"]
    assert blue.startswith("rgb(") and other == "#123456"
    assert theme["drawn"]["layout"]["shapes"][0]["line"]["color"].startswith("rgb(")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_in_a_chart_is_the_pages_own_ink(open_page, finished, scheme):
    page = open_page(finished["view"], color_scheme=scheme)
    page.wait_for_selector("#roofline-plot .main-svg", timeout=90_000)
    ink = page.evaluate(f"{PLOT.format('roofline')}.layout.font.color")
    assert ink == page.evaluate("getComputedStyle(document.body).color")


def test_the_page_draws_what_the_server_built(app, page, finished):
    figures = app.get(f"/api/figures/{finished['id']}?names={','.join(LIVE)}")
    for name in LIVE:
        page.wait_for_selector(f"#{name}-plot .main-svg", state="attached", timeout=90_000)
        shown = page.evaluate(f"{PLOT.format(name)}.data.map((t) => [...t.x, ...t.y].length)")
        assert shown == [len(t["x"]) + len(t["y"]) for t in figures[name]["figure"]["data"]]
        expect(page.locator(f"#chart-{name} .caption")).to_have_text(figures[name]["caption"])
    page.locator("#chart-history details > summary").click()
    expect(page.locator("#chart-history tbody tr")).to_have_count(len(figures["history"]["rows"]))


def test_the_chosen_trial_is_marked_without_a_question_to_the_server(page, finished):
    asked = []
    page.on("request", lambda r: asked.append(r.url) if "/api/figures" in r.url else None)
    page.locator('#timeline .trial[data-trial="2"]').click()
    until(page, f"{PLOT.format('history')}.data.some((t) => t.selectedpoints?.length)")
    for name in ("roofline", "history"):
        assert sum(len(t.get("selectedpoints") or []) for t in traces(page, name)) == 1
    assert not asked


def test_a_click_on_a_mark_chooses_the_trial(page):
    mark = page.locator("#history-plot .scatterlayer .points path").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator('#timeline .trial[aria-current="true"]')).to_have_attribute("data-trial", "1")


def test_a_replay_shows_the_figures_as_they_were(app, page, finished):
    judged = [e["seq"] for e in finished["events"] if e["kind"] == "trial.judged"]
    page.locator("#scrub").fill(str(judged[1]))
    page.locator("#chart-history details > summary").click()
    expect(page.locator("#chart-history tbody tr")).to_have_count(2)
    page.locator("#scrub").fill(str(judged[0] - 1))
    expect(page.locator("#chart-history .waiting")).to_be_visible()


def test_the_server_is_asked_at_most_twice_a_second(page, finished):
    asked, began = [], time.monotonic()
    page.on("request", lambda r: asked.append(r.url) if "/api/figures" in r.url else None)
    for seq in range(1, len(finished["events"])):
        page.locator("#scrub").evaluate("(n, v) => { n.value = v; n.dispatchEvent(new Event('input')); }", seq)
        page.wait_for_timeout(20)
    seconds = time.monotonic() - began  # longer than the pauses where the machine is busy
    assert 1 <= len(asked) <= 2 * (seconds + 3), (len(asked), seconds)


def test_a_table_says_the_numbers_where_plotly_does_not_load(open_page, app, finished):
    page = open_page("/robots.txt")
    page.route("**/plotly*.js", lambda route: route.abort())
    page.goto(app.url + finished["view"])
    expect(page.locator("#chart-history .caption")).to_contain_text("the table has the numbers", timeout=90_000)
    page.locator("#chart-history details > summary").click()
    expect(page.locator("#chart-history tbody tr")).not_to_have_count(0)


def test_a_chart_that_cannot_be_asked_for_is_asked_again(open_page, app, finished):
    page = open_page("/robots.txt")
    failed = []

    def once(route):
        if failed:
            return route.continue_()
        failed.append(route.request.url)
        return route.fulfill(status=500, body=json.dumps({"error": "no", "fix": ""}), content_type="application/json")

    page.route("**/api/figures/**", once)
    page.goto(app.url + finished["view"])
    page.wait_for_selector("#history-plot .main-svg", timeout=90_000)
    assert failed


def test_the_charts_fit_a_telephone(open_page, finished, complaints):
    page = open_page(finished["view"], 360, 740)
    page.get_by_role("tab", name="Charts").click()
    for name in LIVE:
        page.wait_for_selector(f"#{name}-plot .main-svg", state="attached", timeout=90_000)
        box = page.locator(f"#{name}-plot .cartesianlayer").bounding_box()
        assert box and box["width"] > 100 and box["height"] > 60, (name, box)
    no_sideways_scroll(page)
    assert not complaints


def test_what_the_axes_say_has_units(page):
    texts = page.locator("#roofline-plot .infolayer text").all_text_contents()
    assert {"FLOP per byte", "TFLOP/s"} <= set(texts)
    assert any(re.search(r"PyTorch(TF32|float16)", t) for t in texts)
