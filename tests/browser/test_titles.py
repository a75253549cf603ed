"""A session's title says what is computed, not what the docstring of an edited text still says."""

from playwright.sync_api import expect

from tests.browser.conftest import MODULE, paste

STALE = MODULE.replace("2048, 2048", "512, 256")  # its docstring still says "8192 to 8192"
COMPUTED = "linear 512x256, mul, leaky_relu on 1,024 rows"


def test_the_title_of_an_edited_module_has_the_sizes_of_its_text(app, open_page, complaints):
    assert "8192 to 8192" in STALE.splitlines()[0]
    page = open_page("/")
    paste(page, STALE)
    page.locator("#trials").fill("1")
    page.keyboard.press("Control+Enter")
    expect(page.locator("h1")).to_have_text(COMPUTED, timeout=90_000)
    expect(page).to_have_title(f"{COMPUTED} · μCUTLASS playground")
    expect(page.locator("#link-state")).to_have_text("Ended", timeout=90_000)
    page.goto(f"{app.url}/mine")
    expect(page.locator("#started")).to_contain_text(COMPUTED)
    assert not complaints, complaints


def test_a_session_at_other_sizes_has_them_in_its_title(app, finished):
    first = app.get(f"/api/sessions/{finished['id']}")
    assert first["title"] == "linear 2048x2048, mul, leaky_relu on 1,024 rows"
    body = {"source": MODULE.replace("2048, 2048", "1024, 1024"), "sizes": "N = 1024"}
    session = app.post(f"/api/sessions/{finished['id']}/again", body)
    assert app.wait_ended(session["id"])["title"] == "linear 1024x1024, mul, leaky_relu on 1,024 rows"
