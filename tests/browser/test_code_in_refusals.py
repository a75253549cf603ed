"""What a refusal says between backticks is shown as code, wherever it is said, and never parsed as HTML."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import paste

NO_INPUTS = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
HOSTILE = NO_INPUTS + "\n\nraise ValueError('<img src=x onerror=alert(1)> `<b>bold</b>` ends')\n"


def as_code(where, code: str):
    expect(where.locator("code", has_text=code).first).to_be_visible(timeout=90_000)
    assert "`" not in where.inner_text(), where.inner_text()


def test_a_mistake_that_is_seen_while_typing(open_page, complaints):
    page = open_page("/")
    paste(page, NO_INPUTS)
    as_code(page.locator("#diagnostics"), "def get_inputs(): return [torch.randn(...)]")
    assert "`" not in page.locator("main").inner_text()
    assert not complaints, complaints


def test_a_refused_session_and_the_editor_that_it_leads_back_to(open_page, complaints):
    page = open_page("/")
    paste(page, NO_INPUTS)
    page.keyboard.press("Control+Enter")
    as_code(page.locator("#refusal-reason"), "def get_inputs(): return [torch.randn(...)]")
    assert "`" not in page.locator("main").inner_text()
    page.locator("#fix-it").click()
    as_code(page.locator("#diagnostics"), "inputs = [torch.randn(...)]")
    assert not complaints, complaints


def test_markup_between_backticks_stays_text(open_page, complaints):
    page = open_page("/")
    paste(page, HOSTILE)
    page.keyboard.press("Control+Enter")
    reason = page.locator("#refusal-reason")
    as_code(reason, "<b>bold</b>")
    expect(reason).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("main img[src=x], main b:text-is('bold')")).to_have_count(0)
    assert not complaints, complaints


@pytest.mark.parametrize("text", ["an odd ` one", "```\na fence\n```", "plain"])
def test_a_text_without_pairs_stays_whole(checkout, text):
    shown = checkout.evaluate(
        """async (text) => {
          const { coded, h } = await import("/static/js/page.js");
          return h("p", {}, coded(text)).innerHTML;
        }""",
        text,
    )
    assert shown == text
