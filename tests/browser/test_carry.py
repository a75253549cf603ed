"""Texts on the way to the editor and away from it: a link that holds a draft, a file that is dropped or opened."""

import base64
import zlib

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, paste, until

MODULE = '''"""Zwei Größen, geteilt: ½ μs."""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 64)]
'''
PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {\n  y = gemm(x, w)\n  return y\n}\n"
TEXT = "#editor .cm-content"
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(text, (c) => c.charCodeAt(0))], name));
  const at = document.querySelector('#editor .cm-content');
  for (const kind of ['dragover', 'drop'])
    at.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true, composed: true }));
}"""


def shared(page) -> str:
    """The link that the page copies."""
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator("#draft-link").press("Enter")
    until(page, "window.copied")
    return page.evaluate("window.copied")


@pytest.mark.parametrize(("tab", "text"), [("PyTorch module", MODULE), ("μCUTLASS program", PROGRAM)])
def test_a_link_holds_the_draft_for_another_browser(open_page, tab, text, complaints):
    page = open_page("/")
    page.get_by_role("tab", name=tab).click()
    paste(page, text)
    link = shared(page)
    expect(page.locator("#toast")).to_contain_text("Link copied")
    other = open_page(link, 360, 740, reduced_motion="no-preference")
    expect(other.get_by_role("tab", selected=True).first).to_have_text(tab)
    expect(other.locator(TEXT)).to_contain_text(text.splitlines()[-2].strip())
    expect(other.locator(TEXT)).to_contain_text(text.splitlines()[0])
    assert "#" not in other.url, "what is typed from now on is not the link's text"
    no_sideways_scroll(other)
    assert not complaints, complaints


def test_undo_brings_back_the_text_that_a_link_replaced(open_page, app):
    page = open_page("/")
    paste(page, MODULE)
    link = shared(page)
    paste(page, "x = 1  # mine")
    page.goto(link)
    expect(page.locator(TEXT)).to_contain_text("Zwei Größen")
    expect(page.locator("#toast")).to_contain_text("Undo brings yours back")
    page.locator(TEXT).click()
    page.keyboard.press("ControlOrMeta+z")
    expect(page.locator(TEXT)).to_have_text("x = 1  # mine")


CUT = ["#draft=module.AAAA", "#draft=module.", "#draft=kernel.AAAA", "#draft=", "#program=%E0%A4%A"]


@pytest.mark.parametrize("part", CUT)
def test_a_link_that_lost_a_part_says_so_and_leaves_the_draft(open_page, app, part, complaints):
    page = open_page("/")
    paste(page, "x = 1  # mine")
    page.goto(f"{app.url}/{part}")
    expect(page.locator("#toast")).to_contain_text("The text in this link cannot be read")
    expect(page.locator(TEXT)).to_have_text("x = 1  # mine")
    assert not complaints, complaints


def test_a_short_link_of_a_huge_text_is_refused(open_page, app):
    raw = zlib.compressobj(wbits=-15)
    letters = base64.urlsafe_b64encode(raw.compress(b"a" * 50_000_000) + raw.flush()).decode().rstrip("=")
    page = open_page("/")
    page.goto(f"{app.url}/#draft=module.{letters}")
    expect(page.locator("#toast")).to_contain_text("The text in this link cannot be read")
    expect(page.locator(TEXT)).to_contain_text("class Model(nn.Module)")


def test_a_dropped_file_becomes_the_text_once(open_page, complaints):
    page = open_page("/")
    page.evaluate(DROP, ["mine.py", "class Model: pass  # dropped"])
    expect(page.locator(TEXT)).to_have_text("class Model: pass  # dropped")
    page.evaluate(DROP, ["mine.ucutlass", PROGRAM])
    expect(page.get_by_role("tab", name="μCUTLASS program")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#check-state")).to_have_text("The program is correct")
    assert not complaints, complaints


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("picture.py", "\x89PNG\x00", "picture.py is not a text."),
        ("empty.py", " ", "empty.py is empty."),
        ("long.py", "#" * 70_000, "long.py has 69 KiB; the limit is 64 KiB."),
    ],
)
def test_a_file_that_is_no_text_is_named_and_leaves_the_draft(open_page, name, text, why):
    page = open_page("/")
    page.evaluate(DROP, [name, text])
    expect(page.locator("#toast")).to_have_text(why)
    expect(page.locator(TEXT)).to_contain_text("class Model(nn.Module)")


def test_a_file_is_opened_with_the_keyboard_and_once_more(open_page, tmp_path, complaints):
    file = tmp_path / "mine.py"
    page = open_page("/", 360, 740)
    for text in ("x = 1  # first", "x = 2  # second"):
        file.write_text(text)
        with page.expect_file_chooser() as chooser:
            page.locator("#draft-open").press("Enter")
        chooser.value.set_files(file)
        expect(page.locator(TEXT)).to_have_text(text)
    no_sideways_scroll(page)
    assert not complaints, complaints
