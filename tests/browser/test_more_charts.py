"""The charts that the server draws stand on the page when they are asked for, as pictures and as tables."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

NAMES = ("shares", "waterfall", "levers", "policies")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (360, "light")])
def test_limits_stages_levers_and_policies_are_drawn(open_page, finished, complaints, width, scheme):
    page = open_page(finished["view"], width, 900, color_scheme=scheme)
    if width < 1000:
        page.get_by_role("tab", name="Charts").click()
    page.locator("#more-charts > summary").click()
    for name in NAMES:
        page.wait_for_selector(f"#{name}-plot .main-svg", state="attached", timeout=90_000)
    for name in NAMES:
        box = page.locator(f"#{name}-plot .cartesianlayer").bounding_box()
        assert box and box["width"] > 100 and box["height"] > 60, (name, box)
    no_sideways_scroll(page)
    expect(page.locator("#chart-shares .caption")).to_contain_text("Share of each limit")
    expect(page.locator("#chart-policies .caption")).to_contain_text("recorded sessions")
    assert not complaints


def test_the_table_has_each_lever_with_what_it_promised_and_what_it_brought(open_page, app, finished):
    rows = app.get(f"/api/figures/{finished['id']}")["levers"]["rows"]
    page = open_page(finished["view"])
    page.locator("#more-charts > summary").click()
    page.locator("#chart-levers details > summary").click()
    expect(page.locator("#chart-levers tbody tr")).to_have_count(len(rows))
    expect(page.locator("#chart-levers tbody")).to_contain_text(rows[0]["lever"])
    expect(page.locator("#chart-levers thead")).to_contain_text("observed")


def test_nothing_is_asked_of_the_server_before_they_are_opened(open_page, finished):
    page = open_page("/robots.txt")
    asked = []

    def note(request):
        if ("/api/figures" in request.url and "roofline" not in request.url) or "policies" in request.url:
            asked.append(request.url)

    page.on("request", note)
    page.goto(page.url.replace("/robots.txt", finished["view"]))
    page.wait_for_selector("#roofline-plot .main-svg", timeout=90_000)
    assert not asked
    page.locator("#more-charts > summary").click()
    page.wait_for_selector("#policies-plot .main-svg", timeout=90_000)
    assert len(asked) == 2
