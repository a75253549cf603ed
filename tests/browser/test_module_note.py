"""What a person should know of a module as it was traced stands in the head of its session's page."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LINEAR, no_sideways_scroll

TRAINS = LINEAR.replace("nn.Linear(256, 256)", "nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1))")
NOTE = "The module runs in eval mode. In training, nn.Dropout would compute something else."


@pytest.fixture(scope="module")
def trained(app) -> str:
    session = app.submit(TRAINS, trials=1, classes=["f16"])
    app.wait_ended(session["id"])
    return f"/s/{session['id']}"


@pytest.mark.parametrize("width", [1280, 360])
def test_a_viewer_reads_that_its_layers_compute_something_else_in_training(open_page, complaints, trained, width):
    page = open_page(trained, width)
    expect(page.locator("#module-note")).to_have_text(NOTE)
    no_sideways_scroll(page)
    assert not complaints, complaints


def test_a_replay_has_the_note_from_the_event_that_tells_it(app, open_page, trained):
    rows = app.get(f"/api/sessions/{trained.removeprefix('/s/')}/events")["events"]
    traced = next(row["seq"] for row in rows if row["kind"] == "traced")
    page = open_page(f"{trained}?at={traced}")
    expect(page.locator("#replay .at")).to_contain_text(str(traced))
    expect(page.locator("#module-note")).to_have_text(NOTE)
    before = open_page(f"{trained}?at={traced - 1}")
    expect(before.locator("#replay .at")).to_contain_text(str(traced - 1))
    expect(before.locator("#module-note")).to_have_text("")


def test_a_projected_session_translates_it(open_page, trained):
    page = open_page(trained.replace("/s/", "/framed/") + "?lang=ko")
    expect(page.locator("#module-note")).to_contain_text("nn.Dropout의 계산이 다릅니다")


def test_a_module_without_such_layers_has_none(open_page, finished):
    page = open_page(finished["view"])
    expect(page.locator("#link-state")).to_have_text("Ended")
    expect(page.locator("#module-note")).to_have_text("")
