"""Plotly figures as JSON: every roof, every trial, hollow predictions, and the same facts as a table."""

import json

import pytest
from suite59 import gemm_problem

from sol.attainable import predict_eager
from sol.figures.plots import COLOUR, SHAPE, HistoryTrial, Point, StopLine, breakdown, history, roofline
from sol.hardware import CLASSES, load

H200 = load("h200")
POINTS = [
    Point("PyTorch", "measured", 410, 370e12, "tf32", "baseline"),
    Point("trial 1", "predicted", 410, 390e12, "tf32", trial=1),
    Point("trial 2", "measured", 410, 400e12, "tf32", "best", trial=2),
    Point("trial 3", "measured", 683, 600e12, "f16", trial=3),
]


def named(figure, name):
    return next(t for t in figure.figure["data"] if t.get("name") == name)


@pytest.fixture(params=["roofline", "history", "breakdown"])
def figure(request):
    if request.param == "roofline":
        return roofline(H200, POINTS, ["tf32", "f16"])
    if request.param == "history":
        return history([HistoryTrial(1, "tf32", "measured", 1.1, 0.3)], [StopLine("tf32", 0.37, 0.278, 0.1, 12)])
    return breakdown(predict_eager(gemm_problem("L2/12"), H200, "f16").stages)


def test_a_figure_is_plain_json_on_a_transparent_ground_and_keeps_its_zoom(figure):
    assert json.loads(json.dumps(figure.figure)) == figure.figure
    layout = figure.figure["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert layout["uirevision"]
    assert figure.rows and len({tuple(r) for r in figure.rows}) == 1 and figure.title


def test_every_class_has_its_own_colour_and_shape():
    assert len({COLOUR[c] for c in CLASSES}) == len({SHAPE[c] for c in CLASSES}) == len(CLASSES)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    lin = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]


def test_text_is_legible_on_white_and_on_black(figure):
    grey = luminance(figure.figure["layout"]["font"]["color"])
    assert 1.05 / (grey + 0.05) >= 4.5 and (grey + 0.05) / 0.05 >= 4.5


def test_the_roofline_bends_at_the_ridge_and_dashes_the_measured_ceiling():
    f = roofline(H200, POINTS, ["tf32", "f16"])
    roof, ceiling = named(f, "TF32 roof"), named(f, "TF32 measured ceiling")
    assert roof["y"][1:] == [494.7e12, 494.7e12] and roof["x"][1] == pytest.approx(494.7 / 4.8)
    assert roof["y"][0] == pytest.approx(4.8e12 * roof["x"][0])
    assert ceiling["line"]["dash"] == "dash" and ceiling["y"][2] == 434e12
    assert named(f, "FP32 pipes (epilogues)")["y"][2] == pytest.approx(66.9e12)


def test_predictions_are_hollow_measurements_filled_and_the_baseline_a_star():
    f = roofline(H200, POINTS, ["tf32", "f16"])
    assert named(f, "trials")["marker"]["symbol"] == ["circle-open", "diamond"]
    assert named(f, "best")["marker"]["symbol"] == ["circle"]
    assert named(f, "PyTorch")["marker"]["symbol"] == ["star"]


def test_the_table_of_the_roofline_gives_the_share_of_the_roof():
    rows = {r["label"]: r for r in roofline(H200, POINTS, ["tf32", "f16"]).rows}
    assert rows["trial 2"]["share of roof"] == pytest.approx(400 / 494.7, abs=1e-3)
    assert rows["trial 1"]["kind"] == "predicted"


def test_a_roofline_without_points_still_has_its_roofs():
    assert named(roofline(H200, [], ["f16"]), "float16 roof")
    assert roofline(load("cpu"), [], ["f32"]).rows


TRIALS = [
    HistoryTrial(1, "tf32", "measured", 0.9, 0.41),
    HistoryTrial(2, "tf32", "measured", None, note="tile needs too much shared memory"),
    HistoryTrial(3, "tf32", "predicted", 1.1, 0.336),
    HistoryTrial(4, "tf32", "measured", 1.05, 0.352),
]
STOP = StopLine("tf32", 0.37, 0.278, 0.1, 12, stopped_at=4)


def test_the_best_so_far_is_a_step_that_never_falls():
    line = named(history(TRIALS, [STOP]), "best so far, TF32")
    assert line["line"]["shape"] == "hv" and line["y"] == [0.9, 0.9, 1.1, 1.1]
    assert [r["best so far"] for r in history(TRIALS, [STOP]).rows] == [0.9, 0.9, 1.1, 1.1]


def test_a_failed_trial_is_shown_with_its_reason():
    failed = named(history(TRIALS), "failed")
    assert failed["x"] == [2] and "shared memory" in failed["text"][0]


def test_limit_stop_rules_and_baseline_are_drawn():
    layout = history(TRIALS, [STOP])
    across = [s["y0"] for s in layout.figure["layout"]["shapes"] if s.get("xref") == "paper"]
    down = [s["x0"] for s in layout.figure["layout"]["shapes"] if s.get("yref") == "paper"]
    assert across == [1.0, pytest.approx(0.37 / 0.278), pytest.approx(0.37 / 0.278 / 1.1)]
    assert down == [3 + 12, 4]  # the window counts from the best trial


def test_wide_speedups_get_a_log_axis_with_their_notes_moved():
    f = history([HistoryTrial(1, "tf32", "measured", 0.2), HistoryTrial(2, "tf32", "measured", 40.0)])
    assert f.figure["layout"]["yaxis"]["type"] == "log"
    assert f.figure["layout"]["annotations"][0]["y"] == 0  # log10 of a speedup of one


def test_a_history_of_nothing_is_a_figure():
    assert history([]).rows == []


def test_the_breakdown_adds_up_to_the_stages():
    stages = predict_eager(gemm_problem("L2/12"), H200, "tf32").stages
    f = breakdown(stages)
    assert sum(sum(t["x"]) for t in f.figure["data"]) == pytest.approx(sum(s.ms for s in stages))
    assert [r["stage"] for r in f.rows] == [s.name for s in stages]
    assert sum(r["share"] for r in f.rows) == pytest.approx(1, abs=1e-3)
