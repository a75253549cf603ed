"""The gallery's data is computed from a bench: every problem as a row that names its program, sorts and filters."""

import json

import pytest

from engine.bench.report import bench_report, publish
from engine.bench.report.page import HEAD, page, won_otherwise
from tests.engine.results.test_bench_report import bench

__all__ = ["bench"]


def test_it_has_figures_rows_and_where_they_are_from(bench):
    content = page(bench, "bench-x.json")
    one = content["classes"]["tf32"]
    assert content["from"] == "bench-x.json" and content["driver"] == "580" and "bench suite59" in content["command"]
    assert content["head"] == HEAD and len(one["rows"]) == 3
    assert {len(row["cells"]) for row in one["rows"]} == {len(row["values"]) for row in one["rows"]} == {len(HEAD)}
    assert one["fast_p"]["rows"] and content["speedup_gap"]["figure"]["data"]


def test_a_row_names_the_trial_that_won(bench):
    rows = {row["problem"]: row for row in page(bench, "x")["classes"]["tf32"]["rows"]}
    assert rows["matmul_square"]["number"] == 2, "the fastest that does all of the work"
    assert bench["problems"]["matmul_square"]["trials"][1]["text"] == "fast"
    assert rows["matmul_tril"]["number"] is None and rows["matmul_tril"]["result"] == "none"
    assert rows["matmul_tril"]["cells"][-1] == "no program: no rule takes it | yet"


def test_a_row_is_faster_or_slower_than_the_best_of_pytorch(bench):
    rows = {row["problem"]: row for row in page(bench, "x")["classes"]["tf32"]["rows"]}
    assert [rows[n]["result"] for n in ("matmul_square", "conv1d_long")] == ["faster", "slower"]
    assert rows["conv1d_long"]["cells"][4] == "0.80× (torch.compile)"
    assert rows["conv1d_long"]["values"][4] == pytest.approx(0.8)


def test_a_column_sorts_by_numbers_and_the_suite_by_its_order(bench):
    rows = page(bench, "x")["classes"]["tf32"]["rows"]
    assert [(row["cells"][1], row["values"][1]) for row in rows] == [("L1/1", 0), ("L1/15", 1), ("L1/67", 2)]
    assert [row["level"] for row in rows] == [1, 1, 1]
    assert rows[0]["cells"][2] == "0.9000" and rows[0]["values"][2] == 0.9 and rows[1]["values"][2] is None
    assert json.dumps(rows)


def test_it_says_what_the_entries_multiply_in(bench):
    s = bench_report.summary(bench["problems"], "tf32") | {"guarded": [None] * 2}
    assert won_otherwise(s, "tf32")[0].startswith("2 of 3 are f16 products under a guard")


def test_every_committed_row_names_a_program_that_is_committed():
    """Each row of the gallery's table has a program to show."""
    path = publish.committed()
    results = bench_report.read(path)
    for cls, part in page(results, path.name)["classes"].items():
        for row in part["rows"]:
            trial = results["problems"][row["problem"]]["trials"][row["number"] - 1]
            assert trial["text"].startswith("program ") and f"{trial['ms']:.4f}" == row["cells"][2], (cls, row)
