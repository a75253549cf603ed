"""Figures are Plotly's graph objects as JSON: every roof and trial, hollow predictions, the same facts as a table."""

import itertools
import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from suite59 import gemm_problem

from sol.attainable import predict_eager
from sol.figures import breakdown, history, palette, roofline, stages
from sol.figures.figure import PLOT, STEP, apart, scatter, ticks
from sol.figures.history import HistoryTrial, StopLine
from sol.figures.palette import COLOUR, SHAPE
from sol.figures.roofline import Point
from sol.hardware import CLASSES, load
from sol.report import report

H200 = load("h200")
ROOFS = roofline.roofs_of_hardware(H200, ["tf32", "f16"])
POINTS = [
    Point("PyTorch eager", "measured", 410, 370e12, "tf32", "baseline"),
    Point("trial 1", "predicted", 410, 390e12, "tf32", trial=1),
    Point("trial 2", "measured", 410, 400e12, "tf32", "best", trial=2),
    Point("trial 3", "measured", 683, 600e12, "f16", trial=3),
]
TRIALS = [
    HistoryTrial(1, "tf32", "measured", 0.9, 0.41, best=True),
    HistoryTrial(2, "tf32", "", None, outcome="failed", counts=False, note="tile needs too much shared memory"),
    HistoryTrial(3, "tf32", "predicted", 1.1, 0.336, best=True),
    HistoryTrial(4, "tf32", "measured", 1.05, 0.352),
]
STOP = StopLine("tf32", 0.37, 0.278, 0.1, 12, stopped_at=4)


@pytest.fixture(scope="module")
def sol_report():
    return asdict(report(gemm_problem("L2/12"), H200, ["tf32", "f16"]))


def named(figure, name):
    return next(t for t in figure.figure["data"] if t.get("name") == name)


def of(name, sol_report):
    if name == "roofline":
        return roofline.roofline(ROOFS, POINTS, H200.title)
    if name == "history":
        return history.history(TRIALS, [STOP], 0.1)
    if name == "breakdown":
        return breakdown.breakdown(sol_report, "tf32", breakdown.Run("best", 0.3, "measured"))
    return stages.stages(predict_eager(gemm_problem("L2/12"), H200, "f16").stages)


@pytest.fixture(params=["roofline", "history", "breakdown", "stages"])
def figure(request, sol_report):
    return of(request.param, sol_report)


def test_a_figure_is_plain_json_on_a_transparent_ground_and_keeps_its_zoom(figure):
    assert json.loads(json.dumps(figure.figure)) == figure.figure
    layout = figure.figure["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)" and layout["uirevision"]
    assert figure.rows and len({tuple(r) for r in figure.rows}) == 1 and figure.title and figure.caption.endswith(".")


def test_a_property_that_plotly_does_not_have_is_refused():
    with pytest.raises(ValueError, match="colour"):
        scatter(x=[1], y=[1], marker={"colour": "red"})


def test_nothing_of_plotly_is_imported_before_a_figure_is_built():
    text = "import sys, sol.__main__, sol.figures.roofline, sol.figures.history; print('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout == "False\n"


def test_every_class_has_its_own_colour_and_shape():
    assert len({COLOUR[c] for c in CLASSES}) == len({SHAPE[c] for c in CLASSES}) == len(CLASSES)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    lin = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]


@pytest.mark.parametrize("ink", [palette.INK, palette.MUTED])
def test_text_is_legible_on_white_and_on_black(ink):
    grey = luminance(ink)
    assert 1.05 / (grey + 0.05) >= 4.5 and (grey + 0.05) / 0.05 >= 4.5


# ---- the roofline ----


def test_the_roofline_bends_at_the_ridge_and_dots_what_is_reached_in_practice(sol_report):
    f = of("roofline", sol_report)
    roof, ceiling = named(f, "TF32 roof"), named(f, "TF32, reached in practice")
    assert roof["y"][1:] == [494.7, 494.7] and roof["x"][1] == pytest.approx(494.7 / 4.8)
    assert roof["y"][0] == pytest.approx(4.8 * roof["x"][0])
    assert ceiling["line"]["dash"] == "dot" and ceiling["y"][2] == pytest.approx(H200.ceiling("tf32") / 1e12)


def test_the_roofs_of_a_report_are_those_of_its_device(sol_report):
    assert roofline.roofs_of_report(sol_report, ["tf32", "f16", "fp8"]) == ROOFS


def test_predictions_are_hollow_measurements_filled_and_pytorch_a_square(sol_report):
    f = of("roofline", sol_report)
    assert named(f, "TF32, predicted")["marker"]["symbol"] == "circle-open"
    assert named(f, "TF32, measured")["marker"]["symbol"] == "circle"
    assert named(f, "float16, measured")["marker"]["symbol"] == "diamond"
    assert named(f, "PyTorch eager")["marker"]["symbol"] == "square"


def test_a_mark_says_which_trial_it_is_so_that_a_page_can_select_it(sol_report):
    assert named(of("roofline", sol_report), "TF32, measured")["customdata"] == [2]


def test_classes_with_one_peak_share_a_label():
    roofs = roofline.roofs_of_hardware(H200, ["tf32", "f16", "bf16"])
    texts = [a["text"] for a in roofline.roofline(roofs, [], "x").figure["layout"]["annotations"]]
    assert texts == ["TF32", "float16<br>bfloat16"]


def test_the_table_of_the_roofline_gives_the_share_of_the_roof(sol_report):
    rows = {r["run"]: r for r in of("roofline", sol_report).rows}
    assert rows["trial 2"]["share of roof"] == pytest.approx(400 / 494.7, abs=1e-3)
    assert rows["trial 1"]["kind"] == "predicted" and rows["trial 2"]["what"] == "best"


def test_a_roofline_without_points_still_has_its_roofs():
    assert named(roofline.roofline(roofline.roofs_of_hardware(H200, ["f16"]), [], "x"), "float16 roof")
    assert roofline.roofline(roofline.roofs_of_hardware(load("cpu"), ["f32"]), [], "x").rows
    with pytest.raises(ValueError, match="at least one roof"):
        roofline.roofline([], [], "x")


# ---- the history ----


def test_the_best_so_far_is_a_step_that_never_falls(sol_report):
    line = named(of("history", sol_report), "best so far, TF32")
    assert line["line"]["shape"] == "hv" and list(zip(line["x"], line["y"], strict=True)) == [
        (1, 0.9), (3, 1.1), (4, 1.1), (4, 1.1),
    ]  # fmt: skip
    assert [r["best so far"] for r in of("history", sol_report).rows] == [0.9, 0.9, 1.1, 1.1]


def test_a_failed_trial_is_a_cross_on_the_floor_with_its_reason(sol_report):
    failed = named(of("history", sol_report), "failed")
    assert (failed["x"], failed["y"]) == ([2], [0.0]) and "shared memory" in failed["text"][0]


def test_a_time_that_is_no_result_is_crossed_out_and_never_the_best():
    flagged = HistoryTrial(5, "tf32", "measured", 9.0, 0.04, outcome="flagged", counts=False, note="gaming: no kernel")
    f = history.history([*TRIALS, flagged], [STOP])
    trace = named(f, "TF32, measured, no result")
    assert trace["marker"]["symbol"] == "x-open" and "no kernel" in trace["text"][0]
    assert max(named(f, "best so far, TF32")["y"]) == 1.1 and "Crossed out" in f.caption
    assert f.rows[-1]["outcome"] == "measured, no result"


def test_limit_stop_rule_and_pytorch_are_drawn(sol_report):
    f = of("history", sol_report)
    lines = f.figure["layout"]["shapes"]
    assert [s["y0"] for s in lines if s.get("xref") == "paper"] == [
        1.0, pytest.approx(0.37 / 0.278), pytest.approx(0.37 / 0.278 / 1.1),
    ]  # fmt: skip
    assert [s["x0"] for s in lines if s.get("yref") == "paper"] == [4]
    assert "within 10% of the limit" in f.caption


def test_wide_speedups_get_a_log_axis_with_their_labels_moved():
    f = history.history([HistoryTrial(1, "tf32", "measured", 0.2), HistoryTrial(2, "tf32", "measured", 40.0)])
    assert f.figure["layout"]["yaxis"]["type"] == "log"
    assert f.figure["layout"]["annotations"][0]["y"] == 0  # log10 of a speedup of one


def test_a_history_of_nothing_is_a_figure():
    assert history.history([]).rows == []


def test_labels_of_lines_that_lie_close_do_not_lie_on_each_other():
    trials = [HistoryTrial(1, "f16", "measured", 1.02, 0.29), HistoryTrial(2, "tf32", "measured", 1.01, 0.33)]
    stops = [StopLine("f16", 0.29, 0.23, 0.25, 3), StopLine("tf32", 0.33, 0.262, 0.25, 3)]
    layout = history.history(trials, stops).figure["layout"]
    notes = layout["annotations"]
    assert sorted(n["text"] for n in notes) == ["PyTorch", "TF32 limit", "TF32 stop", "float16 limit", "float16 stop"]
    low, high = layout["yaxis"]["range"]
    at = sorted((n["y"] - low) / (high - low) * PLOT + n["yshift"] for n in notes)
    assert min(b - a for a, b in itertools.pairwise(at)) >= STEP - 1


def test_labels_that_lie_apart_stay_where_they_are():
    assert [a["yshift"] for a in apart([{"y": 1.0}, {"y": 0.0}], 0.0, 1.0)] == [0, 0]


def test_a_log_axis_has_round_marks():
    assert ticks(0.3, 30)["ticktext"] == ["0.5", "1", "2", "5", "10", "20"]


# ---- where the time goes ----


def test_the_caption_speaks_of_the_class_that_is_drawn(sol_report):
    f = breakdown.breakdown(
        sol_report, "f16", breakdown.Run("best", 0.3, "measured"), breakdown.Run("PyTorch", 0.4, "measured")
    )
    assert f.caption.startswith("In float16 no kernel on NVIDIA H200 SXM 141GB can be faster than ")
    assert "PyTorch takes 0.4 ms (measured)" in f.caption and "TF32" not in f.caption
    assert [r["what"] for r in f.rows][-3:] == ["limit", "best, measured", "PyTorch, measured"]


def test_without_a_time_of_its_class_the_caption_names_no_other(sol_report):
    assert "PyTorch takes" not in breakdown.breakdown(sol_report, "f16").caption


def test_a_predicted_bar_is_hollow(sol_report):
    f = breakdown.breakdown(sol_report, "tf32", breakdown.Run("best", 0.3, "predicted"))
    assert f.figure["data"][0]["marker"]["color"][-1] == palette.CLEAR
    assert breakdown.breakdown(sol_report, "of another report") is None


def test_the_stages_add_up(sol_report):
    run = predict_eager(gemm_problem("L2/12"), H200, "tf32").stages
    f = stages.stages(run)
    assert sum(sum(t["x"]) for t in f.figure["data"]) == pytest.approx(sum(s.ms for s in run))
    assert [r["stage"] for r in f.rows] == [s.name for s in run]
    assert sum(r["share"] for r in f.rows) == pytest.approx(1, abs=1e-3)
