"""The main pages in both themes at three widths, in real Chromium, as one picture for the README.

    python -m tests.browser.contact_sheet                  # writes static/img/pages.webp
    python -m tests.browser.contact_sheet --shots FOLDER   # keeps the screenshots, to look at each

The pages are the real ones, served by daphne with an engine and the shipped recordings. The exit status is 1 if a page
complains (an error of its script or of the policy), scrolls sideways, or does not show what it waits for, and if the
picture is too large.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Error, Page, sync_playwright

from playground.learn import recorded
from tests.browser.conftest import ARGS, CHROMIUM, ROOT, App, Watched, no_sideways_scroll, until

SHEET = ROOT / "static/img/pages.webp"
MOST_BYTES = 600_000
SIZES = ((1440, 900), (1024, 768), (360, 740))
THEMES = ("light", "dark")
HEIGHT, GAP, LABEL = 220, 14, 30  # of a thumbnail, between two, of a row's name
PAPER, INK = "#d9dad6", "#1b1e22"
CHARTS = "document.querySelectorAll('.main-svg').length >= {}"


@dataclass(frozen=True)
class Shown:
    """A page of the sheet. `ready`: a JavaScript expression that is true once the page shows what it has; `scroll`:
    what is brought to the top of the picture."""

    name: str
    path: str
    ready: str = "document.readyState === 'complete'"
    scroll: str = ""


@dataclass(frozen=True)
class Shot:
    shown: Shown
    theme: str
    width: int
    picture: Image.Image

    @property
    def file(self) -> str:
        return f"{self.shown.name.lower().replace(' ', '-')}-{self.width}-{self.theme}.png"


def pages() -> list[Shown]:
    """The main pages, with recordings of the repository."""
    first, second = (recorded.session_id(name) for name in ("linear_div_gelu", "linear_scale_leaky"))
    rows = "document.querySelectorAll('#suite-table tbody tr').length > 50"
    return [
        Shown("Playground", "/", f"{CHARTS.format(1)} || innerWidth < 1000"),
        Shown("Session", f"/s/{first}?trial=4", f"{CHARTS.format(4)} || innerWidth < 1000"),
        Shown("Gallery", "/gallery", f"{CHARTS.format(2)} && {rows}"),
        Shown("Suite", "/gallery", f"{CHARTS.format(2)} && {rows}", "#suite-rows"),
        Shown("Problem", "/gallery/suite/linear_div_gelu?class=f16"),
        Shown("Compare", f"/gallery/compare?a={first}&b={second}", CHARTS.format(2)),
        Shown("Learn", "/learn"),
        Shown("Lesson", "/learn/roofline"),
        Shown("Workshops", "/w"),
        Shown("My sessions", "/mine"),
        Shown("Language", "/language"),
        Shown("Error code", "/language/E204"),
        Shown("API", "/api/docs"),
    ]


def shots(browser: Browser, url: str, shown: Shown, complaints: Watched) -> Iterator[Shot]:
    """A page in each theme at each width. Raises AssertionError for one that scrolls sideways or never gets ready."""
    for width, height in SIZES:
        for theme in THEMES:
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
            )
            complaints.watch(page)
            try:
                yield Shot(shown, theme, width, _picture(page, url, shown))
            finally:
                page.close()


def _picture(page: Page, url: str, shown: Shown) -> Image.Image:
    page.goto(url + shown.path)
    until(page, shown.ready)
    with contextlib.suppress(Error):  # a socket keeps some pages from ever being idle
        page.wait_for_load_state("networkidle", timeout=3000)
    page.wait_for_timeout(700)  # charts are drawn at most twice a second
    no_sideways_scroll(page)
    if shown.scroll:
        page.locator(shown.scroll).evaluate("node => scrollTo(0, node.getBoundingClientRect().top + scrollY - 16)")
        page.wait_for_timeout(100)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def sheet(pictures: list[Shot]) -> Image.Image:
    """The shots as thumbnails of one height: a row a page, in the order in which they come."""
    rows: dict[str, list[Image.Image]] = {}
    for shot in pictures:
        width = round(shot.picture.width * HEIGHT / shot.picture.height)
        small = shot.picture.resize((width, HEIGHT), Image.Resampling.LANCZOS)
        rows.setdefault(shot.shown.name, []).append(small)
    wide = max(sum(small.width + GAP for small in row) for row in rows.values()) + GAP
    image = Image.new("RGB", (wide, len(rows) * (LABEL + HEIGHT + GAP) + GAP), PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(20)
    for i, (name, row) in enumerate(rows.items()):
        x, y = GAP, i * (LABEL + HEIGHT + GAP) + 8
        draw.text((x, y), name, font=font, fill=INK)
        for small in row:
            image.paste(small, (x, y + LABEL))
            x += small.width + GAP
    return image


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHEET)
    parser.add_argument("--shots", type=Path, help="a folder for the screenshots")
    parser.add_argument("--only", action="append", help="the name of a page, in any case; may be given several times")
    asked = parser.parse_args(argv)
    wanted = [p for p in pages() if not asked.only or p.name.lower() in {name.lower() for name in asked.only}]
    complaints, pictures = Watched(), []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = App(Path(folder))
        with app.serving():
            app.manage("load_recordings", "-v", "0")
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
            for shown in wanted:
                try:
                    pictures += shots(browser, app.url, shown, complaints)
                except AssertionError as e:
                    complaints.append(f"{shown.name}: {e}")
            browser.close()
    if asked.shots:
        asked.shots.mkdir(parents=True, exist_ok=True)
        for shot in pictures:
            shot.picture.save(asked.shots / shot.file)
    sheet(pictures).save(asked.out, quality=72, method=6)
    size = asked.out.stat().st_size
    if size > MOST_BYTES:
        complaints.append(f"{asked.out.name} has {size:,} bytes; {MOST_BYTES:,} are allowed")
    print(f"{len(pictures)} screenshots, {size:,} bytes: {asked.out}")
    print("\n".join(complaints), file=sys.stderr, end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
