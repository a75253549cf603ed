"""A diff tells what is gone from what came: by a sign before each line and by two colours, in both themes."""

import pytest
from playwright.sync_api import expect

DRAW = """async (theme) => {
  document.documentElement.dataset.theme = theme;
  const { makeDiff } = await import("/static/js/language/diff.js");
  const box = document.createElement("div");
  box.id = "drawn";
  document.querySelector("main").prepend(box);
  const same = ["stages 4", "schedule pingpong", "store nchw"];
  const a = ["tile 128x128x64", ...same, "gone", ...same, ...same].join("\\n");
  const b = ["tile 128x256x64", ...same, ...same, "came", ...same].join("\\n");
  makeDiff(box, { a, b, lang: "text", labelA: "before", labelB: "after" });
}"""
LOOK = """(selector) => [...document.querySelectorAll(`#drawn ${selector}`)].map((node) => {
  const own = getComputedStyle(node), sign = getComputedStyle(node, "::before");
  return {
    text: node.textContent, background: own.backgroundColor, sign: sign.content.replaceAll('"', ""), ink: sign.color,
    left: node.getBoundingClientRect().left + parseFloat(sign.left),
  };
})"""
WORD = """(selector) => [...document.querySelectorAll(`#drawn ${selector}`)].map(
  (node) => [node.textContent, getComputedStyle(node).backgroundColor, getComputedStyle(node).backgroundImage])"""


def rgb(colour: str) -> list[float]:
    return [float(x) for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def greener(colour: str) -> bool:
    red, green, _ = rgb(colour)
    return green > red


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 480], ids=["side by side", "one above the other"])
def test_removals_and_additions_are_told_apart(open_page, complaints, theme, width):
    page = open_page("/gallery", width=width)
    page.evaluate(DRAW, theme)
    split = width > 620
    gone = ".cm-merge-a .cm-changedLine" if split else ".cm-deletedLine"
    expect(page.locator(f"#drawn {gone}").first).to_be_visible()
    removed, added = page.evaluate(LOOK, gone), page.evaluate(LOOK, ".cm-merge-b .cm-changedLine")
    assert [line["text"] for line in removed] == ["tile 128x128x64", "gone"]
    assert [line["text"] for line in added] == ["tile 128x256x64", "came"]
    assert {line["sign"] for line in removed} == {"−"} and {line["sign"] for line in added} == {"+"}
    assert not any(greener(line["ink"]) for line in removed) and all(greener(line["ink"]) for line in added)
    left = page.evaluate("document.querySelector('#drawn').getBoundingClientRect().left")
    assert all(line["left"] >= left for line in removed + added), "a sign is cut off"
    backs = page.evaluate(LOOK, gone if split else ".cm-deletedChunk")
    assert not any(greener(line["background"]) for line in backs)
    assert all(greener(line["background"]) for line in added)
    words = page.evaluate(WORD, ".cm-merge-a .cm-changedText" if split else ".cm-deletedText")
    assert words and not any(greener(back) or image != "none" for _, back, image in words)
    words = page.evaluate(WORD, ".cm-merge-b .cm-changedText")
    assert words and all(greener(back) and image == "none" for _, back, image in words)
    assert not complaints, complaints
