"""While the gallery loads it says so, and says that nothing was timed where that is so."""

import json

import pytest
from playwright.sync_api import expect

from engine.bench.report import charts
from engine.bench.report.page import page as page_of
from tests.browser.test_suite_results import TOLD, gallery

__all__ = ["gallery"]
SHIFTS = """window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""
NOTHING = "Nothing was timed"


@pytest.mark.parametrize("pattern", ["**/data/bench*.json", "**/plotly-basic*.js"])
def test_the_page_says_that_it_loads_until_it_has_loaded(gallery, app, complaints, pattern):
    page = gallery(1200)
    waiting = []
    page.route(pattern, lambda route: waiting.append(route))  # playwright takes no built-in
    page.goto(f"{app.url}/gallery")
    expect(page.locator("#suite")).to_contain_text("Loading the ")
    page.wait_for_timeout(1500)
    assert waiting, "nothing was held back, so this proves nothing"
    seen = page.locator("#suite").inner_text()
    assert "Loading the " in seen and NOTHING not in seen
    for route in waiting:
        route.fallback()
    expect(page.locator("#chart-speedup-gap .main-svg").first).to_be_visible()
    expect(page.locator("#chart-fast-p .main-svg").first).to_be_visible()
    seen = page.locator("#suite").inner_text()
    assert "Loading" not in seen and NOTHING not in seen
    assert not complaints, complaints


def test_a_class_in_which_nothing_was_timed_says_so(gallery, app):
    page = gallery(1200)
    data = page_of(TOLD, "bench.json")
    first = next(iter(data["classes"].values()))
    first["fast_p"] = charts.fast_p([], "tf32").to_json()
    page.route("**/data/bench*.json", lambda r: r.fulfill(body=json.dumps(data), content_type="application/json"))
    page.goto(f"{app.url}/gallery")
    expect(page.locator("#chart-fast-p")).to_contain_text("Nothing was timed in this class.")
    expect(page.locator("#chart-speedup-gap .main-svg").first).to_be_visible()


def test_results_that_do_not_come_are_said_to_be_missing_and_load_when_asked_again(gallery, app):
    page = gallery(1200)
    page.route("**/data/bench*.json", lambda route: route.abort())
    page.goto(f"{app.url}/gallery")
    expect(page.locator("#suite-from")).to_contain_text("The results did not load. The server does not answer.")
    expect(page.locator("#suite-rows")).to_be_hidden()
    expect(page.get_by_role("heading", name="Recorded sessions")).to_be_visible()
    data = json.dumps(page_of(TOLD, "bench.json"))
    page.route("**/data/bench*.json", lambda route: route.fulfill(body=data, content_type="application/json"))
    page.get_by_role("button", name="Try again").press("Enter")
    expect(page.locator("#suite-table tbody tr")).to_have_count(2)
    expect(page.locator("#suite-from")).to_contain_text("NVIDIA H200 (driver 580")


@pytest.mark.parametrize("width", [1440, 360])
@pytest.mark.parametrize("path", ["/gallery?class=f16&level=2", "/gallery#recorded", "/gallery/suite/bmm"])
def test_what_loads_later_moves_nothing(open_page, app, recordings, path, width):
    page = open_page("about:blank", width=width, height=740)
    page.add_init_script(SHIFTS)
    page.route("**/data/bench*.json", lambda route: (page.wait_for_timeout(600), route.fallback()))
    page.goto(app.url + path)
    page.wait_for_timeout(3000)
    assert page.evaluate("window.shift") < 0.05
