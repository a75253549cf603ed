"""A search goes on in waves from what was found, may stop early, and cuts what is no single program into regions."""

import json

import pytest

pytest.importorskip("torch")

from engine.bench.report import coverage
from engine.bench.report.table import table
from engine.bench.run.judge import stopped
from engine.bench.run.plan import plan
from engine.bench.run.request import Wanted
from engine.bench.run.runner import run
from sol.hardware import load
from tests.engine.bench.test_judge import trial
from tests.engine.graphs import Builder, linear

H200 = load("h200")


def two_products_and_a_sort():
    g = Builder()
    x, w, v = g.input("x", (1024, 512)), g.parameter("w", (512, 512)), g.parameter("v", (512, 512))
    h = g.op("linear", [x, w], (1024, 512))
    h = g.op("cumsum", [h], (1024, 512), dim=-1)
    return g.graph(g.op("linear", [h, v], (1024, 512)))


def test_a_module_that_no_program_is_becomes_its_regions_with_their_rest_named():
    made = plan("m", two_products_and_a_sort(), ("tf32",), H200)
    assert not made.planners and not made.refused
    assert [p["words"] for p in made.parts] == ["linear", "linear"]
    assert [u["op"] for u in made.uncovered] == ["cumsum"] and "cumsum" in made.words
    for part in made.parts:
        assert plan("m#1", part["graph"], ("tf32",), H200).planners["tf32"]


def test_a_module_that_one_program_is_has_no_parts():
    made = plan("m", linear([("relu", {})], rows=256, k=512, n=512), ("tf32",), H200)
    assert made.planners and not made.parts


def test_the_stop_rule_is_asked_of_the_trials_in_order():
    base = {"eager_tf32": {"ms": 2.0, "ratio": 1.0}}
    row = {"baselines": base, "limits": {"tf32": 0.5}}
    own = [trial("tf32", 1.0), trial("tf32", 1.2), {"ok": False, "class": "tf32"}]
    assert stopped(row, "tf32", own, 0.1, 3) is None
    assert "2 trials in a row" in stopped(row, "tf32", own, 0.1, 2)
    assert "within 10%" in stopped(row, "tf32", [trial("tf32", 0.54)], 0.1, 6)
    assert stopped(row, "tf32", [trial("tf32", 2.5)] * 9, 0.1, 2) is None  # slower than PyTorch: go on


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """The mixture of experts, in two waves of one trial: (the results, what was said)."""
    out, said = tmp_path_factory.mktemp("bench") / "b.json", []
    run(Wanted({"moe_layer": "outside"}, ("tf32",), 2, "cpu", wave=1), H200, out, said.append)
    return json.loads(out.read_text())["problems"], said


def test_each_region_is_a_problem_held_against_its_own_part_of_the_module(experts):
    problems, said = experts
    names = problems["moe_layer"]["regions"]
    assert names == ["moe_layer#1", "moe_layer#2"] and not problems["moe_layer"]["trials"]
    for name in names:
        assert [t["ok"] for t in problems[name]["trials"]] == [True, True]
        assert len({t["text"] for t in problems[name]["trials"]}) == 2
    assert sum("moe_layer#" in line for line in said) == 4


def test_the_module_is_composed_of_its_regions_programs_and_held_against_the_whole_of_it(experts):
    problems, said = experts
    made = problems["moe_layer"]["composed"]["tf32"]
    assert made["ok"] and made["error"] < 5e-3 and made["change"] == "2 programs of ours and PyTorch"
    firsts = {name: problems[name]["trials"][0]["text"] for name in problems["moe_layer"]["regions"]}
    assert made["programs"] == firsts  # nothing is timed on a CPU: the first right one
    assert sum(" moe_layer  " in line and "composed" in line for line in said) == 1
    assert "right as a whole, 2 programs of ours and PyTorch, error" in table(problems, ("tf32",))


def test_what_is_covered_is_said_with_what_stays_pytorch(experts):
    (covered,) = coverage.modules(experts[0], "tf32")
    assert [u.module for u in covered.units] == ["moe_layer#1", "moe_layer#2"] and not covered.whole
    assert 0.5 < covered.share <= 1.0 and covered.rest == ("slice",)
    assert "stays PyTorch: slice" in "\n".join(coverage.words(experts[0], "tf32"))


def test_the_speedup_of_what_is_covered_weighs_regions_by_their_time():
    base = {"eager": {"ms": 8.0, "ratio": 4.0}, "eager_tf32": {"ms": 2.0, "ratio": 1.0},
            "compile": {"ms": 1.6, "ratio": 0.8}}  # fmt: skip
    row = {"id": "outside", "baselines": base, "trials": [], "refused": "", "limits": {"tf32": 0.1}}
    part = {"share": {"time": 0.4}}
    problems = {
        "m": {
            **row,
            "regions": ["m#1", "m#2"],
            "uncovered": [{"op": "sort", "line": 7, "reason": "no rule"}],
            "composed": {"tf32": trial("tf32", 1.6, programs={"m#1": "p", "m#2": "p"}, change="2 programs")},
        },
        "m#1": {**row, "region": part, "trials": [trial("tf32", 1.0)]},
        "m#2": {**row, "region": part, "trials": [trial("tf32", 0.5)]},
        "n": {**row, "refused": "no rule takes it"},
    }
    m, n = coverage.modules(problems, "tf32")
    assert m.over["compile"] == pytest.approx((1.6 + 1.6) / 1.5) and m.share == pytest.approx(0.8)
    assert m.rest == ("sort (line 7)",)
    assert m.as_whole["compile"] == pytest.approx(1.6 / 1.6) and m.as_whole["eager"] == pytest.approx(8.0 / 1.6)
    told = "\n".join(coverage.words(problems, "tf32"))
    assert "as a whole 5.00x eager as shipped" in told and "(1 of 2 modules)" in told
    said = table(problems, ("tf32",))
    assert "1 of 2 problems have a right program" in said and "2 programs" in said and "cut into" not in said
    assert n.share is None and n.over == {} and coverage.summary([m, n])["compile"] == m.over["compile"]
