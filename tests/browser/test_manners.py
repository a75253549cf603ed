"""Themes, small screens, keyboard, motion, weight, and a policy that nothing on the page offends."""

import gzip
import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ROOT, no_sideways_scroll, timeline

LIMIT = 300 * 1024


def luminance(page, selector: str = "body") -> float:
    colour = page.locator(selector).evaluate("n => getComputedStyle(n).backgroundColor")
    r, g, b = (int(x) for x in re.findall(r"\d+", colour)[:3])
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system(open_page, finished, scheme):
    for path in ("/", "/gallery", finished["view"]):
        page = open_page(path, color_scheme=scheme)
        assert (luminance(page) > 0.5) == (scheme == "light")


def test_a_chosen_theme_is_kept(open_page):
    page = open_page("/", color_scheme="light")
    page.get_by_role("button", name="Use the dark theme").click()
    assert luminance(page) < 0.3
    page.reload()
    assert luminance(page) < 0.3
    page.goto(page.url + "gallery")
    assert luminance(page) < 0.3


@pytest.mark.parametrize("path", ["/", "/gallery", "/nowhere"])
def test_360_px_is_wide_enough(open_page, path):
    no_sideways_scroll(open_page(path, width=360, height=740))


def test_the_session_page_fits_360_px_in_every_pane(open_page, finished):
    page = open_page(finished["view"], width=360, height=740)
    page.wait_for_selector("#timeline .trial")
    for pane in ("Trials", "Code", "Charts"):
        page.get_by_role("tab", name=pane, exact=True).click()
        expect(page.locator(f".pane-{pane.lower()}")).to_be_visible()
        page.wait_for_timeout(700)
        no_sideways_scroll(page)


def test_the_timeline_goes_by_keyboard(open_page, finished):
    page = open_page(f"{finished['view']}?trial=1")
    page.wait_for_selector('#timeline .trial[aria-current="true"]')
    expect(page.locator("[role=log] > #timeline")).to_be_visible()
    numbers = timeline(page)
    page.locator("body").press("j")
    expect(page.locator('#timeline .trial[aria-current="true"]')).to_have_attribute("data-trial", str(numbers[1]))
    page.keyboard.press("ArrowDown")
    expect(page.locator('#timeline .trial[aria-current="true"]')).to_have_attribute("data-trial", str(numbers[2]))
    page.keyboard.press("k")
    expect(page.locator('#timeline .trial[aria-current="true"]')).to_have_attribute("data-trial", str(numbers[1]))
    expect(page).to_have_url(re.compile(rf"trial={numbers[1]}\b"))  # once the keys rest
    assert page.evaluate("document.activeElement.dataset.trial") == str(numbers[1])


def test_focus_is_visible(open_page):
    page = open_page("/gallery")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_reduced_motion_stops_what_moves(open_page, finished):
    page = open_page(finished["view"], reduced_motion="reduce")
    assert (
        page.locator("#link-state").evaluate("n => parseFloat(getComputedStyle(n, '::before').animationDuration)")
        < 0.001
    )


REVEALED = """async () => {
  const main = document.querySelector("main");
  const seen = () => [...main.querySelectorAll("*")].map((node) => getComputedStyle(node).visibility).join();
  const before = seen();
  main.dataset.late = "";
  while (seen().split("hidden").length < 2 * before.split("hidden").length) await new Promise(requestAnimationFrame);
  await new Promise((then) => setTimeout(then, 200));
  delete main.dataset.late;
  return [before, seen()];
}"""


def test_with_reduced_motion_a_page_is_shown_whole_at_once(open_page):
    """Short transitions, in place of none, would make what is inherited, as visibility is, wait a frame a level."""
    before, after = open_page("/").evaluate(REVEALED)
    assert after == before


def test_the_first_view_is_light_and_all_our_own(app, open_page, finished):
    """Bytes as a server sends them compressed, before Plotly, which comes when the page is idle."""
    for path in ("/", finished["view"]):
        page = open_page("about:blank")
        got = []
        page.on("request", lambda r, got=got: got.append(r.url))
        page.goto(app.url + path)
        page.wait_for_load_state("networkidle")
        assert {urlsplit(u).netloc for u in got if not u.startswith("data:")} == {urlsplit(app.url).netloc}
        first = [u for u in got if "/static/" in u and "plotly" not in u]
        assert any("codemirror" in u for u in first)
        size = len(gzip.compress(page.content().encode()))
        for url in set(first):
            size += len(gzip.compress(page.request.get(url).body(), 9))
        assert size < LIMIT, f"{path} weighs {size / 1024:.0f} KiB"
        plotly = next((i for i, u in enumerate(got) if "plotly" in u), len(got))
        assert plotly > max(i for i, u in enumerate(got) if u in first), "a chart comes after the page"


def test_nothing_offends_the_policy(app, open_page, finished, complaints):
    page = open_page("/")
    policy = page.request.get(app.url + "/").headers["content-security-policy"]
    scripts = re.search(r"script-src ([^;]+)", policy)[1]
    assert scripts.strip() == "'self'"
    page.goto(app.url + finished["view"])
    page.wait_for_selector("#breakdown-plot .bars path")
    page.goto(app.url + "/gallery")
    assert not complaints, complaints


def test_templates_have_no_inline_script_or_style():
    for path in (ROOT / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path
        assert not re.search(r"<style|\sstyle=|\son\w+=", text), path


def test_without_javascript_the_page_says_what_is_missing(open_page):
    page = open_page("/", java_script_enabled=False)
    expect(page.locator("noscript .notice")).to_be_visible()
    assert "needs JavaScript" in page.locator("noscript .notice").evaluate("n => n.textContent")


@pytest.mark.parametrize("width", [1440, 360])
def test_line_numbers_stand_beside_their_lines(open_page, width):
    """CodeMirror's styles apply now and then after it has measured its first line."""
    page = open_page("/", width=width, height=740)
    number = page.locator("#editor .cm-lineNumbers .cm-gutterElement").get_by_text("10", exact=True)
    line = page.locator("#editor .cm-line").nth(9)
    for _ in range(3):
        page.reload()
        expect(line).to_be_visible()
        page.wait_for_timeout(800)
        assert abs(number.bounding_box()["y"] - line.bounding_box()["y"]) < 2
