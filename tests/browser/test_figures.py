"""The charts say what was measured where it was, and keep their labels apart."""

import itertools
import re

import pytest

DRAW = """async ([baselines, trials]) => {
  const { history, palette, sentence } = await import("/static/js/figures.js");
  const judged = (t) => ({ ...t, judged: { ...t, verdict: "clean" }, measured: { time: { ms: t.ms, kind: t.kind } } });
  const view = { baselines, trials: new Map(trials.map((t) => [t.n, judged(t)])), budget: { eps: 0.25 }, started: {} };
  const report = {
    classes: ["tf32", "f16"], bounds: { tf32: { ms: 0.278 }, f16: { ms: 0.139 } },
    sentence: "Limit; PyTorch should take (predicted) 0.376 ms, 1.35 times that, and first: fuse.",
  };
  return { sentence: sentence(view, report), figure: trials.length ? history(view, null, palette()) : null };
}"""


@pytest.fixture
def draw(open_page):
    page = open_page("/robots.txt")  # any page of this origin
    return lambda baselines, trials=(): page.evaluate(DRAW, [baselines, list(trials)])


def baseline(cls, kind):
    return {"name": f"eager_{cls}", "cls": cls, "time": {"ms": 0.3634, "kind": kind}}


def test_once_pytorch_was_timed_its_measured_time_replaces_the_prediction(draw):
    said = draw([baseline("tf32", "measured")])["sentence"]
    assert "PyTorch takes 0.363 ms (measured), 1.31 times that, and first" in said and "predicted" not in said


@pytest.mark.parametrize("known", [[], [baseline("tf32", "predicted")], [baseline("f16", "measured")]])
def test_until_then_it_stays_a_prediction(draw, known):
    assert "should take (predicted) 0.376 ms, 1.35 times" in draw(known)["sentence"]


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
