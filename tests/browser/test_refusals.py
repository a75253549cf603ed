"""Bad input gets one clear message that names the line or the fix, and leads back to the text."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, paste

HEAD = "import torch\nfrom torch import nn\n\n"
SHAPES = (
    HEAD
    + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.fc = nn.Linear(64, 64)\n\n"
    + "    def forward(self, x):\n        return self.fc(x)\n\n"
    + "def get_inputs():\n    return [torch.randn(8, 32)]\n\ndef get_init_inputs():\n    return []\n"
)
BAD = {
    "a syntax error": (HEAD + "class Model(nn.Module)\n    pass\n", "ine 4"),
    "no Model class": (HEAD + "x = 1\n", "class"),
    "shapes that do not match": (SHAPES, "ine 10"),
    "a module that raises": (HEAD + "raise RuntimeError('not today')\n", "not today"),
}


UNCOVERED = (
    HEAD
    + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.rest = nn.Identity()\n\n"
    + "    def forward(self, x):\n        return torch.logcumsumexp(x, 1)\n\n"
    + "def get_inputs():\n    return [torch.randn(8, 64)]\n"
)


def test_a_module_without_a_program_stays_pytorch_and_a_list_says_what_is_covered(open_page, complaints):
    page = open_page("/", width=360, height=740)
    paste(page, UNCOVERED)
    page.keyboard.press("Control+Enter")
    refusal = page.locator("#session-error .refusal")
    expect(refusal.locator("h2")).to_have_text("No part of this is a program yet, so PyTorch stays", timeout=90_000)
    expect(page.locator("#refusal-reason")).to_contain_text("aten.logcumsumexp (line 10) is not covered yet.")
    expect(page.locator("#refusal-reason")).to_contain_text("PyTorch stays: PyTorch eager (TF32) takes")
    expect(page.locator("h1")).to_have_text("logcumsumexp on 8 rows")
    expect(page.locator("#covered dd").first).to_be_hidden()
    page.locator("#covered summary").click()
    kinds = page.locator("#covered dt").all_inner_texts()
    assert kinds[0] == "products" and len(kinds) >= 4
    no_sideways_scroll(page)
    assert not complaints, complaints


@pytest.mark.parametrize("what", BAD)
def test_a_refused_module_is_told_once_and_clearly(open_page, complaints, what):
    source, reason = BAD[what]
    page = open_page("/")
    paste(page, source)
    page.keyboard.press("Control+Enter")
    refusal = page.locator("#session-error .refusal")
    refusal.wait_for(timeout=90_000)
    expect(refusal).to_have_count(1)
    expect(page.locator("#refusal-reason")).to_contain_text(reason)
    expect(page.locator("#link-state")).to_have_text("Ended")
    assert "Traceback" not in refusal.inner_text()

    page.locator("#fix-it").click()
    page.wait_for_selector("#editor .cm-content")
    expect(page.locator("#editor .cm-content")).to_contain_text(source.splitlines()[3])
    if what == "shapes that do not match":
        expect(page.locator("#diagnostics .diagnostic")).to_have_count(1)
        expect(page.locator(".cm-activeLine")).to_have_text(re.compile(r"^\s*return self\.fc\(x\)$"))
    assert not complaints, complaints


def test_an_empty_editor_is_told_so(open_page):
    page = open_page("/")
    page.locator("#editor .cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#form-error")).to_contain_text("There is no module yet")


def test_no_precision_is_told_so(open_page):
    page = open_page("/")
    paste(page, "x")
    for box in page.locator("#classes input").all():
        box.set_checked(False)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#form-error")).to_contain_text("No precision is allowed")


def test_a_bad_budget_names_the_field(open_page):
    page = open_page("/")
    paste(page, "import torch")
    page.locator("#trials").fill("0")
    page.locator("#run").click()
    expect(page.locator("#form-error")).to_contain_text("trials")


def test_a_link_to_nothing_says_so(open_page, app):
    page = open_page("/s/not-a-session-at-all")
    expect(page.locator("h1")).to_have_text("Not here")
    expect(page.locator("main")).to_contain_text("There is no session at this link")
