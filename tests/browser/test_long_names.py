"""What a person named at any length, without a space, fits a telephone."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

NAME = "W" * 80  # as many as a room's title may have


@pytest.fixture(scope="module")
def room(app):
    room = app.post("/api/rooms", {"title": NAME, "lessons": ["roofline"]})
    app.post(f"/api/rooms/{room['code']}/seats", {"name": "W" * 24})
    return room


@pytest.fixture(scope="module")
def ended(app):
    source = f"import torch\n\n\nclass {NAME}(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    session = app.submit(source, title=NAME)  # refused: it has no inputs
    app.wait_ended(session["id"])
    return session


def test_a_room_fits(app, room, open_page):
    page = open_page(f"/w/{room['code']}", 360, 740)
    page.get_by_label("Nickname").fill("Ada")
    no_sideways_scroll(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("#room:not([hidden]) .lesson-step")
    no_sideways_scroll(page)
    wall = open_page(f"/w/{room['code']}/wall/{room['teacher_token']}", 360, 740)
    wall.wait_for_selector("#wall:not([hidden]) .tile")
    no_sideways_scroll(wall)


@pytest.mark.parametrize("path", ["/s/{id}", "/embed/{id}?pane=result"])
def test_a_session_fits(ended, open_page, path):
    page = open_page(path.format(**ended), 360, 740)
    expect(page.locator("#title")).to_have_text(NAME)
    page.wait_for_timeout(500)
    no_sideways_scroll(page)
    assert page.locator("h1").bounding_box()["width"] <= 360  # of an embedded pane: cut there


def test_the_list_of_ones_sessions_fits(app, open_page):
    page = open_page("/", 360, 740)
    session = app.submit(title=NAME, trials=2)
    page.goto(session["control_url"])
    page.wait_for_selector("#timeline .trial")
    page.goto(f"{app.url}/mine")
    expect(page.locator("#started td").first).to_be_visible()
    no_sideways_scroll(page)


@pytest.mark.parametrize(
    ("path", "name"),
    [("/w/ZZZZZZ", "Type a code"), ("/s/nothing", "My sessions"), ("/gallery/compare?a=x&b=y", "Give two other links")],
)
def test_a_link_that_leads_nowhere_leads_back_to_where_it_is_typed(open_page, path, name):
    page = open_page(path)
    page.get_by_role("link", name=name).last.click()
    expect(page.locator("h1")).not_to_have_text("Not here")
