"""The head of a session says so where its speedup is of another baseline than before, or than the original's."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LINEAR, no_sideways_scroll

SAID = """async ([trials, forked]) => {
  const { apply, initial } = await import("/static/js/session/reduce.js");
  const { againstWords } = await import("/static/js/session/words.js");
  const view = initial();
  return trials.map((d, i) => {
    const data = { verdict: "clean", kind: "measured", best: true, trial: i + 1, ...d };
    apply(view, [
      { seq: 2 * i + 1, kind: "trial.proposed", t: i, data: { trial: i + 1, cls: d.cls } },
      { seq: 2 * i + 2, kind: "trial.judged", t: i, data },
    ]);
    return againstWords(view, forked ?? undefined);
  });
}"""


def judged(cls, baseline, ms, speedup):
    return {"cls": cls, "baseline": baseline, "ms": ms, "speedup": speedup}


def said(checkout, *trials, forked=None):
    return checkout.evaluate(SAID, [trials, forked])


def test_a_baseline_that_changes_within_a_class_is_named(checkout):
    first, better = judged("tf32", "eager_tf32", 1.0, 3.0), judged("tf32", "eager_tf32", 0.9, 3.3)
    compiled, last = judged("tf32", "compile_tf32", 0.8, 1.4), judged("tf32", "compile_tf32", 0.7, 1.6)
    change = "Over torch.compile (TF32) since trial 3; before, 3.30× over PyTorch eager (TF32)."
    assert said(checkout, first, better, compiled, last) == ["", "", change, change]


def test_a_best_of_another_class_is_told_with_the_baseline_of_before(checkout):
    slow, fast = judged("tf32", "eager_tf32", 1.0, 1.2), judged("f16", "eager_f16", 0.5, 2.0)
    less = judged("bf16", "eager_bf16", 0.4, 1.1)
    change = "Over PyTorch eager (float16) since trial 2; before, 1.20× over PyTorch eager (TF32)."
    assert said(checkout, slow, fast, less) == ["", change, change]


def test_a_fork_is_compared_with_its_original_once_it_has_a_best(checkout):
    slower, faster = judged("tf32", "eager_tf32", 1.0, 0.9), judged("tf32", "eager_tf32", 0.5, 1.8)
    words = "This is a fork of a session with 1.40× over torch.compile (TF32), another baseline."
    other = {"speedup": 1.4, "baseline": "compile_tf32"}
    assert said(checkout, slower, faster, forked=other) == ["", words]
    assert said(checkout, faster, forked={"speedup": 1.4, "baseline": "eager_tf32"}) == [""]


@pytest.fixture(scope="module")
def searched(app) -> str:
    """A session whose first best is in TF32 and whose last one in float16."""
    session = app.submit(LINEAR, trials=2)
    assert app.wait_ended(session["id"])["summary"]["best"]["baseline"] == "eager_f16"
    return session["id"]


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_its_replay_and_a_pane_say_so(app, open_page, complaints, searched, width):
    page = open_page(f"/s/{searched}", width)
    change = re.compile(r"Over PyTorch eager \(float16\) since trial 2; before, [\d.]+× over PyTorch eager \(TF32\)\.")
    expect(page.locator("#against")).to_have_text(change)
    no_sideways_scroll(page)
    rows = app.get(f"/api/sessions/{searched}/events")["events"]
    first = next(row["seq"] for row in rows if row["kind"] == "trial.judged")
    page.goto(f"{app.url}/s/{searched}?at={first}")
    expect(page.locator("#best")).to_contain_text("TF32")
    expect(page.locator("#against")).to_have_text("")
    page.goto(f"{app.url}/embed/{searched}?pane=result")
    expect(page.locator("#against")).to_have_text(change)
    no_sideways_scroll(page)
    assert not complaints, complaints


def test_a_fork_in_another_class_names_the_originals_baseline(app, open_page, complaints, searched):
    page = open_page(f"/s/{searched}/fork")
    page.locator("#classes input[value=f16]").uncheck()
    page.get_by_label("Trials").first.fill("1")
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.wait_for_url(re.compile(r"/c/"))
    words = r"This is a fork of a session with [\d.]+× over PyTorch eager \(float16\), another baseline\."
    expect(page.locator("#against")).to_have_text(re.compile(words))
    expect(page.locator("#link-state")).to_have_text("Ended")
    assert not complaints, complaints
