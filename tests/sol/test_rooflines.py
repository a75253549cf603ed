"""The roofline by itself: labels beside marks, runs beyond its axes, and a module that a launch binds."""

from dataclasses import asdict

import pytest
from suite59 import Builder

from sol.budget import launch_binds
from sol.figures import history, of_report
from sol.figures.beside_marks import Named, place
from sol.figures.history import HistoryTrial, StopLine
from sol.figures.roofline import Point, roofline, roofs_of_hardware
from sol.hardware import load
from sol.model.tiles import LAUNCH_MS
from sol.report import report

H200 = load("h200")
ROOFS = roofs_of_hardware(H200, ["tf32", "f16"])
SPANS = [(100.0, 50e12), (300.0, 990e12)]


def test_labels_of_one_column_move_apart_and_a_label_without_a_side_goes_to_the_margin():
    marks = [Named(f"PyTorch {i}", 1.0, 1.0 + i / 100, right=i % 2 == 0) for i in range(4)]
    drawn = place(marks, [1.0], (0.0, 2.0), (0.0, 2.0))
    assert {a["xanchor"] for a in drawn} == {"left", "right"}
    assert len({(a["xanchor"], a["yshift"]) for a in drawn}) == 4
    (crowded,) = place([Named("PyTorch", 1.0, 1.0)], [0.9, 1.0, 1.1], (0.0, 2.0), (0.0, 2.0))
    assert crowded["xref"] == "paper"


def test_marks_at_one_place_share_a_label():
    """PyTorch's float16 and bfloat16 mostly take the same time: the second label stood on the name of a roof."""
    at = [("tf32", 330e12), ("f16", 431e12), ("bf16", 432e12)]
    runs = [Point(f"PyTorch eager ({cls})", "predicted", 200.0, rate, cls, "baseline") for cls, rate in at]
    texts = [a["text"] for a in roofline(ROOFS, runs, "x", SPANS).figure["layout"]["annotations"]]
    assert [t for t in texts if t.startswith("PyTorch")] == ["PyTorch<br>TF32", "PyTorch<br>float16<br>bfloat16"]


def test_a_run_beyond_the_axes_is_a_triangle_at_their_edge_and_the_table_has_its_rate():
    slow = Point("trial 9", "measured", 120, 1e9, "tf32", trial=9)
    drawn = roofline(ROOFS, [slow], "x", SPANS)
    trace = next(t for t in drawn.figure["data"] if t["name"] == "trial 9, beyond the axis")
    low = 10 ** drawn.figure["layout"]["yaxis"]["range"][0]
    assert trace["marker"]["symbol"] == "triangle-down" and trace["y"][0] == pytest.approx(low, rel=1e-3)
    assert trace["customdata"] == [9] and "beyond the axis" in drawn.caption
    assert drawn.rows[-1]["TFLOP/s"] == 0.001


def test_a_module_that_a_launch_binds_gets_no_multiple_of_its_limit():
    b = Builder()
    tiny = asdict(report(b.done(b.op("sum", b.input("x", 64, 64), shape=())), H200))
    assert launch_binds(tiny["bounds"]["tf32"]["ms"]) and not launch_binds(LAUNCH_MS)
    drawn = of_report.figures(tiny)
    assert drawn["roofline"].caption.startswith("Launch binds: starting one kernel takes about 4")
    assert "but starting one takes about 4 µs, which binds it" in drawn["breakdown"].caption
    assert not any(" times " in f.caption for f in drawn.values())


def test_the_history_draws_no_limit_that_a_launch_hides():
    trials = [HistoryTrial(1, "tf32", "measured", 1.2, 0.005, best=True)]
    for limit, drawn in ((4e-6, False), (0.004, True)):
        figure = history.history(trials, [StopLine("tf32", 0.006, limit, 0.25, 6)], 0.25)
        labels = [a["text"] for a in figure.figure["layout"]["annotations"]]
        assert ("TF32 limit" in labels) == drawn and ("Launch binds" in figure.caption) != drawn
