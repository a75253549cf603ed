"""The program tab as a place to write: colours, mistakes with their way out, completion, what a word means, layout."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, paste

GOOD = """# y = silu(x @ w.T + b) + r
program layer(x: f16[4096, 1024], w: f16[2048, 1024], b: f32[2048], r: f16[4096, 2048]) -> f16[4096, 2048] {
  y = gemm(x, w.T) {
    tile 128x256x64   # as measured
    schedule cooperative
    epilogue silu(acc + b[n]) + r[m, n]
  }
  return y
}
"""
BAD = GOOD.replace("128x256x64", "256x256x64").replace("cooperative", "coperative").replace("silu(acc", "slu(acc")


@pytest.fixture
def editor(open_page):
    """editor(text, **page options): the page with a program typed into it, and judged."""

    def opened(text: str, judged: str = "ok", **options):
        page = open_page("/", **options)
        page.get_by_role("tab", name="μCUTLASS program").click()
        paste(page, text)
        expect(page.locator("#check-state")).to_have_attribute("data-state", judged)
        return page

    return opened


def text_of(page) -> str:
    return "\n".join(page.locator("#editor .cm-line").all_inner_texts()).replace("\n\n", "\n")


def take(page) -> None:
    """Accept the completion; CodeMirror ignores a key that comes in the moment in which its list opens."""
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")


def colour(page, word: str) -> str:
    span = page.locator("#editor .cm-line span", has_text=re.compile(rf"^{re.escape(word)}$")).first
    return span.evaluate("n => getComputedStyle(n).color")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_kind_of_word_has_its_colour(editor, scheme):
    page = editor(GOOD, color_scheme=scheme)
    kinds = [colour(page, w) for w in ("program", "gemm", "tile", "128x256x64", "f16", "acc", "# as measured")]
    assert len(set(kinds)) >= 6
    assert colour(page, "silu") == colour(page, "gemm") and colour(page, "epilogue") == colour(page, "tile")


def test_every_mistake_is_marked_and_f8_goes_from_one_to_the_next(editor, complaints):
    page = editor(BAD, "bad")
    marks = page.locator("#diagnostics .diagnostic")
    expect(marks).to_have_count(3)
    expect(page.locator("#editor .cm-lintRange-error")).to_have_count(3)
    expect(page.locator("#editor .cm-lint-marker-error")).to_have_count(3)
    expect(page.locator("#check-state")).to_have_text("3 errors")
    page.keyboard.press("ControlOrMeta+Home")
    seen = []
    for key in ("F8", "F8", "F8", "Shift+F8"):
        page.keyboard.press(key)
        current = page.locator('#diagnostics [aria-current="true"] .code')
        expect(current).to_have_count(1)
        seen.append((page.evaluate("getSelection().toString()"), current.inner_text()))
    assert [word for word, _ in seen] == ["256x256x64", "coperative", "slu", "coperative"]
    assert [code for _, code in seen] == ["E209", "E207", "E303", "E207"]
    page.locator("h1").click()
    page.keyboard.press("F8")
    assert page.evaluate("document.activeElement.closest('#editor') !== null")
    assert not complaints, complaints


def test_a_fix_is_applied_where_it_belongs_and_undone(editor):
    page = editor(BAD, "bad")
    for name in ("Use tile 256x208x64", "Write cooperative", "Write silu"):
        fix = page.locator("#diagnostics .fix", has_text=name)
        expect(fix).to_have_text(name)
        fix.click()
        expect(fix).to_have_count(0)
    expect(page.locator("#check-state")).to_have_text("The program is correct")
    assert text_of(page).strip() == GOOD.replace("128x256x64", "256x208x64").strip()
    page.keyboard.press("ControlOrMeta+z")
    expect(page.locator("#check-state")).to_have_attribute("data-state", "bad")


def test_a_code_leads_to_its_page_and_the_reference_back_to_the_editor(editor):
    page = editor(BAD, "bad")
    with page.expect_popup() as opened:
        page.locator("#diagnostics .code", has_text="E209").click()
    code = opened.value
    expect(code.locator("h1")).to_contain_text("E209")
    expect(code.locator(".listing.right")).to_be_visible()
    code.get_by_role("link", name="The language").click()
    expect(code.locator("h2").first).to_have_text("A program")
    code.locator("a.try").first.click()
    expect(code.locator("#editor .cm-content")).to_contain_text("program attend(")
    expect(code.locator("#check-state")).to_have_text("The program is correct")
    assert "#" not in code.url
    code.locator("#editor .cm-content").click()
    code.keyboard.press("ControlOrMeta+z")
    expect(code.locator("#editor .cm-content")).to_contain_text("slu(acc")  # the draft was not lost


@pytest.mark.parametrize(("code", "name"), [("E204", "layer"), ("E002", "layer"), ("E003", "layer"), ("E307", "power")])
def test_a_code_s_page_opens_its_wrong_program_and_the_repaired_one(open_page, complaints, code, name):
    """By the keyboard; among them the longest text, and one with a letter that is not ASCII."""
    page = open_page(f"/language/{code}")
    expect(page.locator(".listing.wrong .verdict")).to_contain_text(code)
    expect(page.locator(".listing.wrong mark")).not_to_have_count(0)
    expect(page.locator(".listing.right mark")).not_to_have_count(0)
    page.get_by_role("link", name="Open in the editor: a program with this error").press("Enter")
    expect(page.locator("#editor .cm-content")).to_contain_text(f"program {name}(")
    expect(page.locator("#diagnostics .code")).to_have_text(code)
    page.go_back()
    page.get_by_role("link", name="Open in the editor: the same program, repaired").press("Enter")
    expect(page.locator("#editor .cm-content")).to_contain_text(f"program {name}(")
    expect(page.locator("#check-state")).to_have_text("The program is correct")
    assert not complaints, complaints


def test_completion_offers_names_clauses_and_values_that_pass(editor):
    page = editor(GOOD)
    page.locator("#editor .cm-line", has_text="schedule").click()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    options = page.locator(".cm-tooltip-autocomplete li")
    page.keyboard.type("clu", delay=20)
    expect(options.first).to_contain_text("cluster")
    take(page)
    expect(options.filter(has_text="2x1x1")).to_have_count(1)
    expect(page.locator(".cm-completionInfo")).to_contain_text("ms by a simple model")
    page.keyboard.type("2x1", delay=20)
    expect(options.first).to_contain_text("2x1x1")
    take(page)
    expect(page.locator("#editor .cm-content")).to_contain_text("cluster 2x1x1")
    expect(page.locator("#check-state")).to_have_text("The program is correct")
    page.locator("#editor .cm-line", has_text="epilogue").click()
    page.keyboard.press("End")
    page.keyboard.type(" * ", delay=20)
    page.keyboard.press("Control+Space")
    for label in ("acc", "b[n]", "r[m, n]"):
        expect(options.filter(has_text=re.compile(rf"^\W*{re.escape(label)}"))).not_to_have_count(0)
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)


def test_a_back_end_that_refuses_says_why_on_a_page_of_its_own(editor):
    along_n = GOOD.replace("f16", "f32").replace("128x256x64", "128x256x32")
    page = editor(along_n.replace("w.T", "w").replace("w: f32[2048, 1024]", "w: f32[1024, 2048]"))
    page.locator("#preview-tabs").get_by_role("tab", name="cute").click()
    expect(page.locator("#preview-code")).to_contain_text("cute cannot express this program")
    with page.expect_popup() as opened:
        page.locator("#preview-note a").click()
    expect(opened.value.locator("h1")).to_have_text("cute-k-major Operands along the wrong axis")


def test_hover_and_the_caret_say_what_a_word_means(editor):
    page = editor(GOOD)
    page.locator("#editor .cm-line span", has_text=re.compile("^gemm$")).hover()
    tip = page.locator(".cm-tooltip-hover .about")
    expect(tip).to_contain_text("a product of matrices")
    expect(tip.get_by_role("link")).to_have_attribute("href", "/language/gemm")
    page.locator("h1").hover()
    expect(tip).to_have_count(0)
    page.locator("#editor .cm-line span", has_text=re.compile("^tile$")).click()
    expect(page.locator("#about")).to_contain_text("one block's part of the output")
    page.keyboard.press("ControlOrMeta+End")
    expect(page.locator("#about")).to_be_empty()


def test_format_keeps_the_comments_and_is_undone(editor):
    page = editor(GOOD.replace("\n    ", "\n  ").replace("x, w.T", "x,w.T"))
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Shift+Alt+F")
    expect(page.locator("#editor .cm-content")).to_contain_text("gemm(x, w.T)")
    expect(page.locator("#editor .cm-content")).to_contain_text("tile 128x256x64  # as measured")
    page.keyboard.press("ControlOrMeta+z")
    expect(page.locator("#editor .cm-content")).to_contain_text("gemm(x,w.T)")
    paste(page, BAD)
    expect(page.locator("#check-state")).to_have_text("3 errors")
    page.get_by_role("button", name="Format").click()
    expect(page.locator("#toast")).to_have_text("Correct the errors first.")


def test_a_column_counts_characters_and_not_half_of_them(editor):
    """An emoji is one character to the checker and two units to the browser."""
    page = editor(GOOD.replace("tile", "🚀 tile"), "bad")
    expect(page.locator("#editor .cm-lintRange-error")).to_have_text("🚀")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_360_px_hold_the_mistakes_the_fixes_and_the_completion(editor, scheme):
    page = editor(BAD, "bad", width=360, height=740, color_scheme=scheme)
    expect(page.locator("#diagnostics .fix").first).to_be_visible()
    no_sideways_scroll(page)
    page.get_by_role("button", name="Next error").click()
    expect(page.locator('#diagnostics [aria-current="true"]')).to_have_count(1)
    page.locator("#editor .cm-line", has_text="return").click()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.type("z = ", delay=20)
    box = page.locator(".cm-tooltip-autocomplete")
    expect(box).to_be_visible()
    area = box.bounding_box()
    assert area["x"] >= 0 and area["x"] + area["width"] <= 361
    no_sideways_scroll(page)
    for path in ("/language", "/language/E204", "/language/tile"):
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path)
        no_sideways_scroll(page)


def test_the_typed_program_and_a_trial_are_taken_away_as_zips(editor, open_page, finished, tmp_path):
    page = editor(GOOD)
    with page.expect_download() as typed:
        page.get_by_role("button", name="Export").click()
    assert typed.value.suggested_filename == "ucutlass-layer.zip"
    page = open_page(f"{finished['view']}?trial=2")
    link = page.get_by_role("link", name="Export")
    expect(link).to_have_attribute("href", re.compile(r"/export\?trial=2$"))
    with page.expect_download() as trial:
        link.click()
    typed.value.save_as(tmp_path / "a.zip")
    trial.value.save_as(tmp_path / "b.zip")
    assert all((tmp_path / f"{x}.zip").read_bytes().startswith(b"PK") for x in "ab")
