"""Shares of the limit with advice, the waterfall, stop policies, levers predicted against observed."""

import json
from dataclasses import asdict

import pytest
from suite59 import gemm_problem

from sol.attainable import StageTime, predict_eager
from sol.budget import Recorded, Trial, sweep
from sol.figures.choices import levers, policies
from sol.figures.shares import advice, shares
from sol.figures.stages import waterfall
from sol.hardware import load
from sol.replay import best
from sol.report import report
from sol.triage import Outcome

H200 = load("h200")


@pytest.fixture(scope="module")
def sol_report():
    return asdict(report(gemm_problem("L2/12"), H200, ["tf32", "f16"]))


def test_a_share_is_the_units_own_time_over_the_runs(sol_report):
    f = shares(sol_report, "tf32", 0.5557, "measured")
    row = next(r for r in f.rows if r["unit"] == "matrix units")
    assert row["share of limit"] == pytest.approx(0.5, abs=1e-3)
    assert f.figure["data"][0]["x"][0] == pytest.approx(50, abs=0.1)
    assert f.figure["data"][0]["marker"]["opacity"] == 1.0
    assert shares(sol_report, "tf32", 0.5, "predicted").figure["data"][0]["marker"]["opacity"] < 1
    assert json.dumps(f.figure)


@pytest.mark.parametrize(
    ("ms", "says"),
    [
        (0.2, "faster than the matrix units allow"),
        (0.30, "busy for 93% of the time: only a lower precision class"),
        (0.40, "The matrix units are used more (69%) than the device memory (17%)"),
        (0.90, "Neither the matrix units (31%) nor memory (8%) is near its limit, so first fuse"),
    ],
)
def test_one_sentence_of_advice_follows_the_shares(sol_report, ms, says):
    text = advice(sol_report, "tf32", ms)
    assert says in text and text.endswith(".") and text.count(". ") == 0
    assert shares(sol_report, "tf32", ms, "measured").caption.endswith(text)


def test_many_short_launches_are_told_to_fuse(sol_report):
    assert "3 launches and the waits between them" in advice(sol_report | {"bounds": tiny(sol_report)}, "tf32", 0.02)


def tiny(sol_report):
    return {"tf32": sol_report["bounds"]["tf32"] | {"parts": {"matrix": 0.001, "memory": 0.002}}}


def test_the_waterfall_runs_without_a_gap_to_the_whole_time():
    eager = predict_eager(gemm_problem("L2/12"), H200, "tf32")
    f = waterfall(eager.stages, 0.278)
    assert [r["starts"] for r in f.rows[1:]] == pytest.approx([r["ends"] for r in f.rows[:-1]])
    assert f.rows[-1]["ends"] == pytest.approx(eager.ms, abs=1e-4)
    for i, stage in enumerate(eager.stages):  # each slice begins where the one before it ends
        ends = f.rows[i]["starts"]
        for trace in f.figure["data"]:
            assert trace["base"][i] == pytest.approx(ends, abs=1e-4)
            ends += trace["x"][i]
        assert ends == pytest.approx(f.rows[i]["starts"] + stage.ms, abs=1e-4)
    assert f.figure["layout"]["shapes"][0]["x0"] == 0.278


def test_a_waterfall_of_nothing_is_empty_and_one_without_parts_is_whole():
    assert waterfall([]).rows == []
    f = waterfall([StageTime("a", "gemm", 2.0, "tensor"), StageTime("b", "gemm", 1.0, "tensor")])
    assert f.figure["data"][0]["base"] == [0.0, 2.0] and f.figure["data"][0]["name"] == "main"


def test_policies_show_the_front_and_the_chosen_one():
    times = (0.50, None, 0.36, 0.35, 0.37, 0.36, 0.36, 0.34, 0.33)
    grid, front = sweep([Recorded("a", tuple(map(Trial, times)), 0.30, 0.40)])
    f = policies(grid, front, best(grid, 0.9))
    assert len(f.rows) == len(grid) and sum(r["front"] for r in f.rows) == len(front)
    star = f.figure["data"][-1]
    assert star["marker"]["symbol"] == "star" and star["y"][0] >= 90
    assert [d["marker"]["symbol"] for d in policies(grid, front).figure["data"]] == [
        "circle-open",
        "circle",
        "diamond-open",
    ]


def test_levers_lie_on_the_diagonal_when_they_keep_their_promise():
    f = levers(
        [Outcome("split_k", 2.0, 1.5, "a", "tf32"), Outcome("fuse_tail", 1.2, None), Outcome("split_k", 3.0, 3.0)]
    )
    assert [t["name"] for t in f.figure["data"]] == ["split k", "fuse tail"]
    assert f.figure["data"][0]["x"] == [2.0, 3.0] and f.figure["data"][0]["y"] == [1.5, 3.0]
    assert f.rows[1]["observed"] is None and len(f.rows) == 3


def test_classes_are_in_words(sol_report):
    assert "TF32" in shares(sol_report, "tf32", 1.0, "measured").figure["layout"]["xaxis"]["title"]["text"]


def test_advice_on_float32_is_about_the_pipes_that_do_its_products():
    plain = asdict(report(gemm_problem("L2/12"), H200, ["f32"]))
    says = advice(plain, "f32", 2 * plain["bounds"]["f32"]["ms"])
    assert "arithmetic pipes (50%)" in says and "matrix units" not in says
