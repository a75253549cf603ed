"""The page "My sessions": a token is made, shown once with what an agent needs, listed, and revoked."""

import json
import re

from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll


def test_a_token_is_made_its_session_listed_and_stopped_and_the_token_revoked(app, open_page, complaints):
    page = open_page("/mine")
    page.set_viewport_size({"width": 360, "height": 800})
    expect(page.get_by_text("There is none yet.")).to_be_visible()
    page.get_by_label("Name of the token").fill("my agent")
    page.get_by_role("button", name="Make a token").click()
    expect(page.locator("#made")).to_be_visible()
    token = page.locator("#token").text_content()
    assert re.fullmatch(r"[\w-]{32}", token)
    expect(page.locator("#claude")).to_contain_text(f"{app.url}/mcp")
    server = json.loads(page.locator("#json").text_content())["mcpServers"]["ucutlass"]
    assert server["headers"] == {"Authorization": f"Bearer {token}"} and server["url"] == f"{app.url}/mcp"
    no_sideways_scroll(page)
    body = {"source": "class Model: ...", "title": "of the agent", "strategy": "agent"}
    reply = page.request.post(f"{app.url}/api/sessions", data=body, headers={"Authorization": f"Bearer {token}"})
    assert reply.status == 201
    page.reload()
    assert token not in page.content()
    expect(page.get_by_role("heading", name="my agent")).to_be_visible()
    expect(page.get_by_role("link", name="of the agent")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text(re.compile("^revoked "))).to_be_visible()
    reply = page.request.post(f"{app.url}/api/sessions", data=body, headers={"Authorization": f"Bearer {token}"})
    assert reply.status == 401
    if page.get_by_role("button", name="Stop").count():  # unless its engine has refused the module already
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Stop the session").click()
    expect(page.get_by_role("cell", name="ended")).to_be_visible()


def test_a_stop_is_asked_for_first(app, open_page, complaints):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(re.sub(r"^https?://[^/]+", "", session["control_url"]))
    page.goto(f"{app.url}/mine")
    stop = page.locator("#started").get_by_role("button", name="Stop", exact=True)
    stop.press("Enter")
    expect(page.locator("#dialog")).to_contain_text("It cannot be continued")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    assert app.get(f"/api/sessions/{session['id']}")["state"] != "ended"
    stop.click()
    page.get_by_role("button", name="Stop the session").press("Enter")
    expect(page.locator("#started").get_by_role("cell", name="ended")).to_be_visible()
    assert not complaints, complaints


def test_a_session_whose_first_kernel_is_refused_keeps_its_control_link(app, open_page):
    page = open_page("/")
    refusal = '{"error": "Too many tries are waiting.", "fix": "Try again later."}'
    page.route("**/commands", lambda route: route.fulfill(status=503, content_type="application/json", body=refusal))
    page.locator("#kernel-first summary").click()
    page.locator("#kernel").fill('extern "C" int run(void* const* in, void* const* out, void* stream) { return 0; }')
    page.locator("#run").click()
    expect(page.locator("#form-error")).to_contain_text("Too many tries are waiting.")
    page.unroute_all()
    page.goto(f"{app.url}/mine")
    row = page.locator("#started tr", has=page.locator("a[href^='/c/']"))
    expect(row).to_have_count(1)
    row.get_by_role("link").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the session").click()
    expect(page.locator("#state")).to_contain_text("Stopped")


# What a reader sees in English: words that no node marks as English. Names stay: μCUTLASS, Claude Code, MCP.
ENGLISH = """(root) => {
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), rows = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const on = node.parentElement;
    if (on.closest("[lang=en], pre, script, noscript, .languages") || !on.checkVisibility()) continue;
    const text = node.data.replace(/Claude Code|MCP|PyTorch|GPU/g, "");
    if (/[A-Za-z]{3}/.test(text)) rows.push(node.data.trim());
  }
  for (const node of root.querySelectorAll("[placeholder], [aria-label], [title]"))
    for (const name of ["placeholder", "aria-label", "title"])
      if (/[A-Za-z]{3}/.test(node.getAttribute(name) ?? "")) rows.push(node.getAttribute(name));
  return rows;
}"""


def test_the_page_speaks_korean_whole(app, open_page, complaints):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(re.sub(r"^https?://[^/]+", "", session["control_url"]))
    page.goto(f"{app.url}/learn?lang=ko")
    page.get_by_role("link", name="내 세션").first.click()
    expect(page.locator("h1")).to_have_text("내 세션")
    expect(page.locator("#started").get_by_role("cell", name="실행 중")).to_be_visible()
    page.get_by_role("button", name="토큰 만들기").click()
    expect(page.get_by_role("button", name="폐기")).to_be_visible()
    assert page.evaluate(f"({ENGLISH})(document.querySelector('main'))") == []
    page.locator("#started").get_by_role("button", name="멈춤").press("Enter")
    assert page.evaluate(f"({ENGLISH})(document.querySelector('dialog'))") == []
    page.get_by_role("button", name="세션 멈추기").press("Enter")
    expect(page.locator("#started").get_by_role("cell", name="끝남")).to_be_visible()
    page.route("**/api/tokens", lambda route: route.abort())
    page.get_by_role("button", name="토큰 만들기").click()
    expect(page.locator("#error")).to_be_visible()
    assert page.evaluate(f"({ENGLISH})(document.querySelector('main'))") == []
    page.get_by_role("link", name="English").click()
    expect(page.locator("h1")).to_have_text("My sessions")
    assert not [line for line in complaints if "ERR_FAILED" not in line], complaints
