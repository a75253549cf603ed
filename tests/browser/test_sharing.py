"""Sharing as its people do it: a note, a snapshot without the source, a pin, a pane in another site's page, a control
link that was lost, and a notice at the end."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, until


@pytest.fixture
def another_site():
    """The address of a page of another site that frames `frames`, a list of addresses."""
    frames: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            body = "".join(f'<iframe src="{f}" width="600" height="400"></iframe>' for f in frames).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>a blog</title>" + body)

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/", frames
    server.shutdown()
    server.server_close()


def test_an_owner_shares_the_results_and_finds_the_session_again(app, open_page, finished, complaints):
    page = open_page(f"{finished['control']}?trial=2", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Add a note").click()
    page.get_by_label("Note on trial 2").fill("This one is <b>mine</b>.")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator("#note .note-text")).to_have_text("This one is <b>mine</b>.")

    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_label("View link")).to_have_value(re.compile(re.escape(finished["view"]) + r"\?trial=2$"))
    page.locator("#embed-pane").select_option("roofline")
    expect(page.get_by_label("Code of the embedded pane")).to_have_value(re.compile(r"^<iframe .*pane=roofline"))
    page.get_by_role("button", name="Take a snapshot").click()
    expect(page.locator("#snapshots li")).to_have_count(1)
    until(page, "navigator.clipboard.readText().then((text) => !text.includes('?'))")  # not what was copied before
    whole = page.evaluate("navigator.clipboard.readText()")
    page.get_by_label("with the source").uncheck()
    expect(page.get_by_label("with the model's turns")).to_be_disabled()
    page.get_by_role("button", name="Take a snapshot").click()
    expect(page.locator("#snapshots li")).to_have_count(2)
    expect(page.locator("#snapshots li", has_text="results alone")).to_be_visible()
    bare = page.evaluate("navigator.clipboard.readText()")
    page.get_by_label("Do not delete this session in time").check()
    page.set_viewport_size({"width": 360, "height": 800})
    no_sideways_scroll(page)
    notebook = page.request.get(app.url + page.get_by_role("link", name="Notebook").get_attribute("href"))
    assert notebook.json()["nbformat"] == 4
    page.get_by_role("button", name="Close").click()

    page.goto(app.url + "/mine")
    row = page.locator("#started tr", has_text="ended")
    expect(row.get_by_role("link")).to_have_attribute("href", finished["control"])
    row.get_by_role("button", name="Copy control link").click()
    assert page.evaluate("navigator.clipboard.readText()") == app.url + finished["control"]
    no_sideways_scroll(page)
    page.goto(app.url + finished["control"])
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_label("Do not delete this session in time")).to_be_checked()

    reader = open_page(f"{whole.removeprefix(app.url)}?trial=2")
    expect(reader.locator("#note .note-text")).to_have_text("This one is <b>mine</b>.")
    expect(reader.get_by_role("button", name="Edit the note")).to_have_count(0)
    expect(reader.locator("#link-state")).to_have_text("Ended")
    reader.goto(bare)
    expect(reader.locator("#best-speedup, #best .none").first).to_be_visible()
    expect(reader.locator("#code")).to_contain_text("The program is not shared")
    assert app.get(f"/api/sessions/{bare.rsplit('/', 1)[1]}")["spec"]["source"] == ""

    page.locator("#snapshots li", has_text="results alone").get_by_role("button", name="Delete").click()
    expect(page.locator("#snapshots li")).to_have_count(1)
    reader.reload()
    expect(reader.get_by_text("There is no session at this link")).to_be_visible()
    known = re.compile(r"the server responded with a status of 404")
    assert not [c for c in complaints if not known.search(c)], complaints


def test_a_pane_stands_in_another_sites_page_and_nothing_else_does(app, open_page, finished, another_site, complaints):
    address, frames = another_site
    view = app.url + finished["view"]
    frames += [f"{view.replace('/s/', '/embed/')}?pane={pane}" for pane in ("result", "roofline", "trials")]
    page = open_page(address)
    result, roofline, trials = (page.frame_locator("iframe").nth(n) for n in range(3))
    expect(result.locator("#link-state")).to_have_text("Ended")
    expect(result.locator("#best-speedup, #best .none").first).to_be_visible()
    expect(roofline.locator(".js-plotly-plot .scatterlayer").first).to_be_visible(timeout=90_000)
    expect(trials.locator("#timeline .trial").first).to_be_visible()
    assert result.locator("button").count() == 0, "no control"
    assert not complaints, complaints
    frames[:] = [view, app.url + finished["control"], app.url + "/"]
    page.reload()
    refused = re.compile(r"frame-ancestors 'none'")
    until(page, "document.querySelectorAll('iframe').length === 3")
    app.wait(lambda: len([c for c in complaints if refused.search(c)]) == 3 or page.wait_for_timeout(100), 30, "framed")


def test_a_hidden_tab_says_that_its_session_ended(app, open_page):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(re.sub(r"^https?://[^/]+", "", session["control_url"]))
    expect(page.get_by_role("button", name="Tell me when it ends")).to_be_visible()
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { get: () => window.away !== false }); window.away = true; }"
    )
    page.wait_for_selector("#timeline .trial", timeout=90_000)
    page.locator("#stop").click()
    page.get_by_role("button", name="Stop the session").click()
    marked = re.compile("^Ended · ")
    expect(page).to_have_title(marked, timeout=90_000)
    page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(page).not_to_have_title(marked)
    expect(page.get_by_role("button", name="Tell me when it ends")).to_be_hidden()
