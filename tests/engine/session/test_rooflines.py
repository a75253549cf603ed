"""A session's roofline: axes that stay while trials come, labels that leave marks free, the best on top."""

import json
from itertools import combinations, pairwise
from math import log10
from pathlib import Path

import pytest

from engine.session import recording
from engine.session.fold import figures
from engine.session.fold.reduce import View
from sol.figures.beside_marks import AWAY, CHARACTER, WIDTH
from sol.figures.figure import PLOT, STEP

RECORDINGS = sorted((Path(__file__).resolve().parents[3] / "playground/recordings").glob("*.jsonl"))


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda p: p.stem)
def rooflines(request):
    """(The view at the end of a recording, its roofline after each event that changes it.)"""
    read = recording.read(request.param)
    view, seen, all_drawn = View(), -1, []
    for row in read.rows:
        view.apply(row.seq, row.kind, row.t, row.data)
        if view.report and view.figures_seq != seen:
            seen = view.figures_seq
            drawn = figures.of(view, json.loads(read.blobs[view.report]), names=["roofline"])["roofline"]
            if drawn is not None:
                all_drawn.append(drawn)
    return view, all_drawn


def test_the_axes_of_a_session_stay_from_the_report_to_the_end(rooflines):
    axes = [[(f.figure["layout"][a]["range"], f.figure["layout"][a]["tickvals"]) for a in ("xaxis", "yaxis")]
            for f in rooflines[1]]  # fmt: skip
    assert len(axes) > 3 and all(a == b for a, b in pairwise(axes))


def test_the_best_of_each_class_is_the_last_that_is_drawn(rooflines):
    view, (*_, drawn) = rooflines
    last = [t["customdata"][0] for t in drawn.figure["data"] if t["name"].startswith("best in")]
    assert sorted(set(last)) == sorted(view.best.values())
    tail = drawn.figure["data"][len(drawn.figure["data"]) - len(last) :]
    assert all(t["name"].startswith("best in") for t in tail)


def boxes(annotations, x, y):
    """(left, right, middle) in pixels of the labels that stand beside marks."""
    for a in annotations:
        if "xref" in a:
            continue
        at, middle = (a["x"] - x[0]) * WIDTH / (x[1] - x[0]), (a["y"] - y[0]) * PLOT / (y[1] - y[0])
        length = CHARACTER * max(map(len, a["text"].split("<br>")))
        left = at + AWAY if a["xanchor"] == "left" else at - AWAY - length
        yield left, left + length, middle + a.get("yshift", 0)


def test_no_label_lies_over_a_mark_or_another_label(rooflines):
    for drawn in rooflines[1]:
        x, y = (drawn.figure["layout"][axis]["range"] for axis in ("xaxis", "yaxis"))
        labels = list(boxes(drawn.figure["layout"]["annotations"], x, y))
        for (l0, r0, y0), (l1, r1, y1) in combinations(labels, 2):
            assert r0 <= l1 or r1 <= l0 or abs(y0 - y1) >= 2 * STEP
        runs = [r["FLOP/byte"] for r in drawn.rows if r["what"] not in ("roof", "ceiling")]
        marks = {(log10(intensity) - x[0]) * WIDTH / (x[1] - x[0]) for intensity in runs}
        assert all(not left - 6 < mark < right + 6 for left, right, _ in labels for mark in marks)
        assert all(left >= 0 for left, _, _ in labels)
