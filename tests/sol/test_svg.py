"""A figure as a picture: well-formed, without style or script, and its marks where its axes say."""

import math
import re
from dataclasses import asdict
from xml.etree import ElementTree

import pytest
from suite59 import gemm_problem

from sol.attainable import predict_eager
from sol.figures import choices, history, of_report, page, shares, stages
from sol.figures.figure import Figure, axis, label, layout, scatter
from sol.figures.history import HistoryTrial, StopLine
from sol.figures.svg import svg
from sol.hardware import load
from sol.report import report
from sol.triage import Outcome

H200 = load("h200")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn():
    sol_report = asdict(report(gemm_problem("L2/12"), H200, ["tf32", "f16"]))
    run = predict_eager(gemm_problem("L2/12"), H200, "tf32").stages
    trials = [HistoryTrial(1, "tf32", "measured", 0.9, 0.4), HistoryTrial(2, "f16", "predicted", 1.4, 0.3, best=True)]
    figures = {
        **of_report.figures(sol_report), "shares": shares.shares(sol_report, "tf32", 0.4, "measured"),
        "history": history.history(trials, [StopLine("f16", 0.4, 0.2, 0.25, 3)]), "stages": stages.stages(run),
        "waterfall": stages.waterfall(run, 0.2), "levers": choices.levers([Outcome("fuse_tail", 1.2, 1.1, "", "tf32")]),
    }  # fmt: skip
    return figures


NAMES = ("roofline", "breakdown", "shares", "history", "stages", "waterfall", "levers")


def picture(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(svg(figure.figure, figure.title))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_becomes_a_picture_that_a_strict_policy_allows(drawn, name):
    text = svg(drawn[name].figure, drawn[name].title)
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == drawn[name].title and root.get("role") == "img"
    assert not re.search(r"style=|<script|<style|nan|inf\b", text)
    assert text == svg(drawn[name].figure, drawn[name].title), "the same bytes each time"


@pytest.mark.parametrize("name", NAMES)
def test_everything_lies_inside_the_picture(drawn, name):
    root = picture(drawn[name])
    width, height = float(root.get("width")), float(root.get("height"))
    for node in root.iter():
        for key, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("cy", height)):
            if node.get(key) is not None:
                assert -1 <= float(node.get(key)) <= most + 1, (node.tag, key, node.get(key))


def test_a_mark_stands_where_its_axes_say():
    data = [scatter(mode="markers", x=[1, 100], y=[0, 10], marker={"color": "#000000", "size": 8})]
    axes = layout("x", axis("a", type="log", range=[0, 2]), axis("b", range=[0, 10]))
    root = picture(Figure({"data": data, "layout": axes}, [], "t"))
    (low, high) = root.iter(f"{SVG}circle")
    lines = [n for n in root.iter(f"{SVG}line") if n.get("x1") == n.get("x2")]
    left, right = min(float(n.get("x1")) for n in lines), max(float(n.get("x1")) for n in lines)
    assert float(low.get("cx")) == pytest.approx(left) and float(high.get("cx")) == pytest.approx(right)
    assert float(low.get("cy")) > float(high.get("cy"))


def test_a_prediction_is_hollow():
    axes = layout("x", axis("a", range=[0, 2]), axis("b", range=[0, 2]))
    marks = [{"symbol": "circle-open", "color": "#0072B2"}, {"symbol": "circle", "color": "#0072B2"}]
    data = [scatter(mode="markers", x=[1], y=[1], marker=m) for m in marks]
    hollow, filled = picture(Figure({"data": data, "layout": axes}, [], "t")).iter(f"{SVG}circle")
    assert (hollow.get("fill"), filled.get("fill")) == ("none", "#0072B2")


def test_a_step_goes_across_before_it_goes_up():
    axes = layout("x", axis("a", range=[0, 2]), axis("b", range=[0, 2]))
    data = [scatter(mode="lines", x=[0, 1], y=[0, 1], line={"shape": "hv", "color": "#0072B2"})]
    (path,) = picture(Figure({"data": data, "layout": axes}, [], "t")).iter(f"{SVG}path")
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+", path.get("d"))


def test_stacked_bars_add_up_and_a_waterfall_has_no_gap(drawn):
    rows = drawn["stages"].rows
    bars = [n for n in picture(drawn["stages"]).iter(f"{SVG}rect") if n.get("x") and float(n.get("height")) > 10]
    ends = {round(float(n.get("y"))): float(n.get("x")) + float(n.get("width")) for n in bars}
    longest = max(rows, key=lambda r: r["ms"])
    at = sorted(ends)[rows.index(longest)]
    assert ends[at] == max(ends.values()) and not math.isclose(min(ends.values()), max(ends.values()))


def test_texts_are_escaped():
    axes = layout("x", axis("<a>"), axis("b"), annotations=[label("<b> & c<br>d", x=0, y=0)])
    text = svg({"data": [scatter(mode="markers", x=[1], y=[1])], "layout": axes}, "<title>")
    assert "&lt;b&gt; &amp; c</text>" in text and ">d</text>" in text and "&lt;title&gt;" in text


def test_a_page_of_figures_has_each_with_its_table(drawn):
    text = page.html("A & B", drawn, "from here")
    assert text.count("<svg") == text.count("<details>") == len(drawn) and "A &amp; B" in text and "<script" not in text


def test_a_report_shows_its_figures(drawn):
    text = report(gemm_problem("L2/12"), H200, ["tf32"]).to_html()
    assert text.count("<svg") == 2 and "style=" not in text
    assert "Roofline of NVIDIA H200" in text
