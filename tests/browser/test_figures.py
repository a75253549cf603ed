"""The charts say what was measured where it was, and keep their labels apart."""

import itertools
import re

import pytest

DRAW = """async ([baselines, trials]) => {
  const { history, palette } = await import("/static/js/figures.js");
  const judged = (t) => ({ ...t, judged: { ...t, verdict: "clean" }, measured: { time: { ms: t.ms, kind: t.kind } } });
  const view = { baselines, trials: new Map(trials.map((t) => [t.n, judged(t)])), budget: { eps: 0.25 }, started: {} };
  return { figure: trials.length ? history(view, null, palette()) : null };
}"""


@pytest.fixture
def draw(open_page):
    page = open_page("/robots.txt")  # any page of this origin
    return lambda baselines, trials=(): page.evaluate(DRAW, [baselines, list(trials)])


def baseline(cls, kind):
    return {"name": f"eager_{cls}", "cls": cls, "time": {"ms": 0.3634, "kind": kind}}


CAPTION = """async ([baselines, best]) => {
  const { breakdown, palette } = await import("/static/js/figures.js");
  const bound = (ms) => ({ ms, bound_by: "matrix", parts: { matrix: ms } });
  const report = {
    classes: ["tf32", "f16"], bounds: { tf32: bound(0.278), f16: bound(0.139) }, gpu: { title: "NVIDIA H200" },
    levers: [{ action: "lower_class", title: "Use float16" }, { action: "fuse", title: "Fuse the last three" }],
  };
  const judged = best && { cls: best, ms: 0.3, kind: "measured", baseline: `eager_${best}` };
  return breakdown({ baselines }, report, best ? { judged } : null, palette()).caption;
}"""


@pytest.fixture
def caption(open_page):
    page = open_page("/robots.txt")
    return lambda baselines, best=None: page.evaluate(CAPTION, [baselines, best])


def test_the_caption_speaks_of_the_class_that_is_drawn(caption):
    said = caption([baseline("tf32", "measured"), baseline("f16", "measured")], best="f16")
    assert said.startswith("In float16 no kernel on NVIDIA H200 can be faster than 0.139 ms") and "TF32" not in said
    assert "PyTorch takes 0.363 ms (measured), 2.61 times that" in said
    assert said.endswith("The first thing to try: fuse the last three.")


def test_the_caption_says_whether_pytorchs_time_is_a_prediction(caption):
    assert "PyTorch takes 0.363 ms (predicted)" in caption([baseline("tf32", "predicted")])


def test_without_a_time_of_its_class_the_caption_names_no_other(caption):
    assert "PyTorch takes" not in caption([baseline("f16", "measured")])


def test_labels_of_lines_that_lie_close_do_not_lie_on_each_other(draw):
    trials = [
        {"n": 1, "cls": "f16", "kind": "measured", "ms": 0.29, "speedup": 1.02, "gap": 1.25, "baseline": "eager_f16"},
        {"n": 2, "cls": "tf32", "kind": "measured", "ms": 0.33, "speedup": 1.01, "gap": 1.25, "baseline": "eager_tf32"},
    ]
    layout = draw([], trials)["figure"]["layout"]
    notes = layout["annotations"]
    assert sorted(n["text"] for n in notes) == ["PyTorch", "TF32 limit", "TF32 stop", "float16 limit", "float16 stop"]
    scale = 210 / layout["yaxis"]["range"][1]
    at = sorted(n["y"] * scale + n["yshift"] for n in notes)
    assert min(b - a for a, b in itertools.pairwise(at)) >= 12
    assert not re.search(r"\d%", " ".join(n["text"] for n in notes)), "the share is in the caption, once"
