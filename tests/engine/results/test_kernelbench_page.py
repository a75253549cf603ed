"""The gallery's data on KernelBench is what the committed trials give."""

import json

import pytest

from engine.bench.report import kernelbench_page
from engine.bench.report.kernelbench_page import ALL, HEAD, LEVELS, page, words

SOURCE = kernelbench_page.committed()


@pytest.fixture(scope="module")
def results():
    return json.loads(SOURCE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def content(results):
    return json.loads(json.dumps(page(results, SOURCE.name)))


def test_the_committed_page_is_that_of_the_newest_results(content):
    assert json.loads(kernelbench_page.PAGE.read_text(encoding="utf-8")) == content, (
        "run python -m engine.bench.report.kernelbench_page"
    )


def test_every_problem_is_a_row_that_sorts_and_names_its_module(content, results):
    assert len(content["rows"]) == len(results["problems"])
    for row in content["rows"]:
        assert len(row["cells"]) == len(row["values"]) == len(HEAD)
        assert row["sha256"] == results["problems"][row["problem"]]["sha256"] and len(row["sha256"]) == 64
        trials = results["problems"][row["problem"]]["trials"]
        assert row["result"] == "none" if row["number"] is None else trials[row["number"] - 1]["ok"]
    assert [row["values"][1] for row in content["rows"]] == list(range(len(content["rows"])))


def test_the_levels_add_up(content):
    rows = content["levels"]["rows"]
    assert all(len(row) == len(LEVELS) for row in rows) and rows[-1][0] == "all"
    for column in (1, 2, 7):
        assert sum(int(row[column]) for row in rows[:-1]) == int(rows[-1][column])


def test_a_part_of_the_benchmark_says_so(content, results):
    assert ("a part of the 250" in content["words"][0]) is (len(results["problems"]) < ALL)
    assert words(None, 3) == []
