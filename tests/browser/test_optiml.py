"""Words become a verified program by OptiML, and its page shows the mixture, the tree, each node and the rejections."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

SOON = 90_000  # ms, on a machine that is busy
PROGRAM = """program scale(x: f16[128, 256], w: f16[256, 512], b: f32[512]) -> f16[128, 512] {
  y = gemm(x, w) { tile 64x64x64  epilogue relu(acc + b[n]) }
  return y
}
"""


def part(page, title):
    return page.locator(".turns-part", has=page.locator("> summary", has_text=title))


def test_words_become_a_program_and_the_tree_is_walked_by_keyboard(app, open_page, complaints):
    searched = app.submit(PROGRAM, source_kind="program", strategy="optiml", trials=4, classes=["f16"], title="A tree")

    # Words, a confirmed module, the strategy; the first candidate is verified, and the second is the same again.
    page = open_page("/", width=360, height=780)
    page.get_by_role("tab", name="Words").click()
    page.get_by_label("What the module computes, in English").fill("row softmax of a 64 x 256 half matrix")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#editor")).to_contain_text("torch.softmax(x, dim=-1)", timeout=SOON)
    page.locator("input[value=optiml]").check()
    expect(page.locator("#option-exploration")).to_have_value("100")
    page.locator("#editor .cm-content").focus()
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/c/"), timeout=SOON)
    app.wait_ended(searched["id"])
    page.locator(".search-tree [role=treeitem]").wait_for(timeout=2 * SOON)
    expect(page.locator(".node-detail")).to_contain_text("became the best", timeout=SOON)
    expect(page.locator(".node-detail")).to_contain_text("There is no diff")
    rejected = part(page, "Rejected by the guardrail")
    expect(rejected.locator("> summary")).to_have_text("Rejected by the guardrail (1)", timeout=SOON)
    rejected.locator("> summary").click()
    expect(rejected).to_contain_text("is trial 1 again, so it is not tried")
    expect(part(page, "Mixture of strategies")).to_contain_text("chosen")
    no_sideways_scroll(page)

    # The tree of four nodes: one item in the order of Tab, moved by the arrows; the panel is that of the node.
    page = open_page(f"/s/{searched['id']}")
    tree = page.locator(".search-tree")
    expect(tree.locator("[role=treeitem]")).to_have_count(4, timeout=SOON)
    assert tree.locator("[tabindex='0']").count() == 1
    tree.locator("[tabindex='0']").focus()
    page.keyboard.press("Home")
    expect(page.locator(".node-detail h3")).to_have_text("Trial 1, the root")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".node-detail h3")).to_have_text("Trial 2, an edit of trial 1")
    expect(tree.locator(":focus")).to_have_attribute("aria-selected", "true")
    detail = page.locator(".node-detail")
    for words in ("Limited by", "Memory traffic", "Instructions", "left out", "Prior", "Guardrail"):
        expect(detail).to_contain_text(words)
    detail.locator("summary", has_text="Diff from trial 1").click()
    detail.locator(".node-diff .cm-content").first.wait_for(timeout=SOON)
    page.keyboard.press("ArrowUp")
    page.locator("summary", has_text="The tree as a table").click()
    assert page.locator(".tree-list tbody tr").count() == 4
    part(page, "Principal path").locator("> summary").click()
    expect(page.locator(".principal-path li").first).to_contain_text("trial 1")
    detail.get_by_role("button", name="show the trial").click()
    assert re.search(r"trial=\d", page.url)
    for words in ("are ours", "Each candidate is a program", "Rules play the model here", "A node may have 2 right"):
        expect(page.locator(".optiml")).to_contain_text(words)
    no_sideways_scroll(page)
    assert not complaints, complaints
