"""The gallery's table of shape groups is computed from the newest committed run, and says what is missing."""

import json

import pytest

from engine.bench.report import shape_groups
from engine.bench.studies.shape_groups import rows
from engine.suite import shape_groups as suite
from engine.suite.shape_groups import GROUPS

TIMED = {"ms": 0.02, "bandwidth": 0.8, "speedup": 2.0, "compiled": 0.9}
ABOUT = {
    "gpu": "NVIDIA H200",
    "driver": "580",
    "date": "2026-11-27",
    "command": "c",
    "model": "rehearsed",
    "kind": "measured",
}
PUBLISHED = [{"problem": "silu_and_mul", "two_stage": 3.55, "astra": 2.89, "before_us": 199.15}]


def row(ended=True, **arms):
    arm = {"best": TIMED}
    shapes = [
        {"shape": list(shape), "tuned": shape in GROUPS["silu_and_mul"].tuned, "copy": {"ms": 0.01, "kind": "measured"},
         "own": arm, "direct": arm, "general": TIMED, **arms}
        for shape in ((16, 14336), (48, 13824))
    ]  # fmt: skip
    one = {"problem": "silu_and_mul", "cls": "f16", "why": "", "ended": ended,
           "general": {"settings": {"threads": 256}}, "shapes": [rows.with_shares(s) for s in shapes]}  # fmt: skip
    return one | {"summary": rows.summary(one)}


def problem(*some):
    results = ABOUT | {"published": PUBLISHED, "rows": list(some)}
    return next(p for p in shape_groups.page(results, "x.json")["problems"] if p["name"] == "silu_and_mul")


def test_the_committed_page_is_that_of_the_newest_results():
    assert json.loads(shape_groups.PAGE.read_text(encoding="utf-8")) == json.loads(json.dumps(shape_groups.content()))


def test_a_later_run_of_a_part_renews_its_row_where_it_came_to_its_end(tmp_path):
    def file(name, date, one):
        path = tmp_path / f"shape-groups-part-{name}-h200-{date}.json"
        path.write_text(json.dumps(ABOUT | {"date": date, "rows": [one]}))
        return path

    old, new = row(), row() | {"general": {"settings": {"threads": 512}}}
    parts = [
        file("b", "2026-11-28", new), file("before", "2026-11-20", row() | {"why": "older"}),
        file("cut", "2026-11-29", row(ended=False) | {"why": "cut"}),
    ]  # fmt: skip
    results, names = shape_groups.renewed(
        ABOUT | {"rows": [old]}, tmp_path / "shape-groups-h200-2026-11-27.json", parts
    )
    assert results["rows"] == [json.loads(json.dumps(new))] and names == parts[0].name


def test_a_problem_has_means_shapes_both_shares_and_the_published_speedup():
    one = problem(row())
    assert one["why"] == "" and one["general"] == "threads 256" and one["published"].startswith("3.55x, Astra 2.89x")
    lines = one["tables"][0]["rows"]
    assert {len(line) for line in lines} == {len(shape_groups.HEAD)} and len(lines) == 6 + 6
    assert lines[0][:2] == ["tuned shapes, mean of 1 of 5", "one configuration for all shapes"]
    assert lines[-1] == ["48x13824, unseen", "direct rewriting", "20", "10", "80%", "50%", "2.00x", "0.90x"]


def test_the_problems_without_figures_are_named_wherever_the_six_are_listed():
    page = shape_groups.content()
    bare = [p for p in page["problems"] if not p["tables"]]
    words, command = page["missing"]["words"], page["missing"]["command"]
    assert words.startswith(f"{len(bare)} of the 6 problems were not measured on a GPU as a group: ")
    assert all(p["title"] in words and p["name"] in command for p in bare)
    listed = suite.__doc__.partition("Not yet: ")[2].replace("\n", " ").strip(" .").split(", ")
    assert listed == [p["name"] for p in bare]
    every = [{**p, "tables": [1]} for p in page["problems"]]
    assert shape_groups.missing(every) is None


def test_what_is_missing_is_named_with_its_reason():
    assert problem()["why"] == "not measured on a GPU as a group yet"
    cut = problem(row(ended=False, direct=None, copy=None))
    assert cut["why"] == "f16: without a time, because the run was cut: direct rewriting, a copy"
    assert problem(row() | {"why": "no program of the language"})["why"] == "f16: no program of the language"


@pytest.mark.parametrize("name", GROUPS)
def test_each_group_has_a_title(name):
    assert shape_groups.NAMES[name]
