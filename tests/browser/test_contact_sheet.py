"""The README shows a contact sheet of the main pages, which a script makes from the real application."""

import pytest
from PIL import Image

from tests.browser import contact_sheet
from tests.browser.conftest import ROOT, Watched, until
from tests.browser.contact_sheet import SIZES, THEMES, Shot, Shown


def test_a_page_is_taken_in_each_theme_at_each_width(app, chromium):
    complaints = Watched()
    pictures = list(contact_sheet.shots(chromium, app.url, Shown("Workshops", "/w"), complaints))
    assert [(shot.width, shot.theme) for shot in pictures] == [(w, t) for w, _ in SIZES for t in THEMES]
    for shot in pictures:
        corner = sum(shot.picture.getpixel((2, shot.picture.height - 2)))
        assert (corner > 600) == (shot.theme == "light") and shot.picture.width == shot.width
        assert len(shot.picture.getcolors(1 << 20)) > 20, "the page is not empty"
    assert not complaints, complaints


def test_a_page_that_complains_or_never_gets_ready_is_no_part_of_a_good_sheet(app, chromium, monkeypatch):
    complaints = Watched()
    missing = Shown("Missing", "/static/nothing.css")
    list(contact_sheet.shots(chromium, app.url, missing, complaints))
    assert complaints and "404" in complaints[0]
    monkeypatch.setattr(contact_sheet, "until", lambda page, expression: until(page, expression, seconds=0.3))
    with pytest.raises(AssertionError, match="never true"):
        list(contact_sheet.shots(chromium, app.url, Shown("Workshops", "/w", "false"), complaints))


def test_a_row_of_the_sheet_is_a_page_with_all_its_pictures():
    red, blue = (Image.new("RGB", (200, 100), colour) for colour in ("#ff0000", "#0000ff"))
    first, second = Shown("First", "/"), Shown("Second", "/")
    image = contact_sheet.sheet([Shot(first, "light", 200, red), Shot(first, "dark", 200, blue),
                                 Shot(second, "light", 200, blue)])  # fmt: skip
    wide = 2 * contact_sheet.HEIGHT
    assert image.width == 2 * wide + 3 * contact_sheet.GAP
    y = contact_sheet.LABEL + contact_sheet.HEIGHT // 2
    row = contact_sheet.LABEL + contact_sheet.HEIGHT + contact_sheet.GAP
    assert image.getpixel((wide // 2, y)) == (255, 0, 0) and image.getpixel((wide + wide // 2, y)) == (0, 0, 255)
    assert image.getpixel((wide // 2, y + row)) == (0, 0, 255)


def test_the_committed_sheet_has_a_row_for_each_page_and_stands_in_the_readme():
    with Image.open(contact_sheet.SHEET) as image:
        rows = (image.height - contact_sheet.GAP) / (contact_sheet.LABEL + contact_sheet.HEIGHT + contact_sheet.GAP)
    assert rows == len(contact_sheet.pages()), "python -m tests.browser.contact_sheet makes it again"
    assert contact_sheet.SHEET.stat().st_size <= contact_sheet.MOST_BYTES
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(static/img/pages.webp)" in readme and "python -m tests.browser.contact_sheet" in readme
