"""A visitor's own endpoint: chosen on the form, its key typed on the owner's page, and kept by no storage."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import App, no_sideways_scroll, paste
from tests.engine.llm.server import ModelServer, says
from tests.playground import public_world

KEY = "sk-Visitor-Typed-7Q2zR9mX4kW8vB1nL6-canary"
PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {\n  y = gemm(x, w.T)\n  return y\n}\n"
STORED = """async () => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie,
  (await indexedDB.databases()).map((d) => d.name), document.documentElement.outerHTML])"""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """An app whose operator has no model and lists one endpoint."""
    top = tmp_path_factory.mktemp("visitor")
    tls, authority = public_world.certified(top / "certificates")
    with ModelServer(says("I write no program."), tls) as server:
        (top / "var").mkdir()
        app = App(top / "var")
        endpoint = public_world.endpoint(server.port)
        app.env |= {"UCUTLASS_ENDPOINTS": endpoint, "SSL_CERT_FILE": str(authority)}
        app.server = server
        engine = ("-m", "tests.playground.public_world", str(server.port), "--device", "modelled:h200")
        with app.serving(*engine):
            yield app


@pytest.fixture(scope="module")
def browser(chromium):
    return chromium


@pytest.fixture(scope="module")
def visited():
    """The pages of another app do not share a process."""


def test_without_a_model_a_strategy_that_asks_one_does_not_start(open_page):
    """Its session ended without a trial: "there is nothing left to try"."""
    page = open_page("/")
    page.locator("input[value=chain]").check()
    page.locator("#run").click()
    expect(page.locator("#form-error")).to_contain_text("“Chain” asks a model, and there is none.")
    expect(page.locator("#form-error")).to_contain_text("OPENAI_API_KEY")
    assert page.url.endswith("/")


def test_the_form_says_what_goes_where_and_the_owner_types_the_key(app, open_page, complaints):
    page = open_page("/", width=360, height=800)
    page.get_by_role("tab", name="μCUTLASS program").click()
    paste(page, PROGRAM)
    assert page.locator("#endpoint").count() == 0, "the planner asks no model"
    page.locator("input[value=chain]").check()
    assert "OPENAI_API_KEY" in page.locator(".consent").inner_text()
    page.get_by_label("Endpoint").select_option(label=f"{host(app)}, my key")
    page.get_by_label("Model", exact=True).fill("theirs")
    page.get_by_label("Model", exact=True).blur()
    text = page.locator(".consent").inner_text()
    assert host(app) in text and "theirs" in text and "your key" in text and "not stored" in text
    no_sideways_scroll(page)
    page.get_by_label("Attempts").fill("1")
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.wait_for_url(re.compile(r"/c/"))

    field = page.locator("#key-field")
    field.wait_for(timeout=90_000)
    expect(page.locator("#state")).to_contain_text(f"Waiting for the key of {host(app)}")
    assert field.get_attribute("type") == "password" and field.get_attribute("autocomplete") == "off"
    no_sideways_scroll(page)
    session = page.evaluate("JSON.parse(document.getElementById('boot').textContent).session.id")
    viewer = open_page(f"/s/{session}")
    expect(viewer.locator("#key-waits")).to_contain_text("Only its owner can give it")
    assert viewer.locator("#key-field").count() == 0

    field.fill("short")
    page.get_by_role("button", name="Give the key").click()
    expect(page.locator("#key .notice")).to_contain_text("too short")
    assert field.input_value() == ""
    field.fill(KEY)
    page.get_by_role("button", name="Give the key").click()
    expect(page.locator("#key")).to_be_hidden(timeout=90_000)
    expect(viewer.locator("#key")).to_be_hidden()
    ended = app.wait_ended(session, 120)
    assert ended["summary"]["end"]["state"] == "done" and app.server.requests
    assert {r.headers["Authorization"] for r in app.server.requests} == {f"Bearer {KEY}"}
    for one in (page, viewer):
        assert KEY not in one.evaluate(STORED)
    page.reload()
    assert KEY not in page.evaluate(STORED)
    refused = [c for c in complaints if "422" not in c]
    assert not refused, refused

    page.goto(f"{app.url}/s/{session}/fork")
    expect(page.get_by_label("Endpoint")).to_have_value(public_world.endpoint(app.server.port))
    expect(page.get_by_label("Model", exact=True)).to_have_value("theirs")


def host(app) -> str:
    return f"{public_world.NAME}:{app.server.port}"
