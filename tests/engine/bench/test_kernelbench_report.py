"""The report of a bench over KernelBench: means with and without PyTorch itself, fast-p, causes, the worst."""

import json
from math import prod

import pytest

from engine.bench.report import kernelbench
from engine.bench.report.kernelbench import FAST, ITSELF, OURS, REFUSED


def baselines(eager=4.0, tf32=2.0, compiled=1.0, shipped=3.0):
    """Ratios are over `eager_tf32`, with which the others alternate."""
    named = {"eager": eager, "eager_tf32": tf32, "compile": compiled, "compile_f32": shipped}
    cls = {"eager": "f32", "compile_f32": "f32"}
    return {n: {"ms": ms, "cls": cls.get(n, "tf32"), "ratio": ms / tf32} for n, ms in named.items() if ms}


def trial(ms, ok=True, seconds=3.0, **more):
    its = {"trial": 1, "class": "tf32", "backend": "cute", "change": "", "text": "", "derived": "tf32", "roof": "tf32",
           "algebraic": "", "seconds": seconds, "ok": ok}  # fmt: skip
    if not ok:
        return its | {"failed": "wrong_result", "message": "off"} | more
    its |= {"ms": ms, "baseline": "eager_tf32", "baseline_ms": 2.0, "ratio": 2.0 / ms, "verdict": "clean", "error": 0.0}
    return its | {"gap": ms / 0.25, "score": 0.5} | more


def row(pid, trials=(), timed=None, **more):
    session = {"state": "done", "code": "search_over", "reason": "", "seconds": 20.0, "ready_s": 4.0, "resumed": 0,
               "best": {}, "t": 0.0}  # fmt: skip
    session |= more.pop("session", {})
    its = {"id": pid, "baselines": baselines() if timed is None else timed, "beside": "eager_tf32",
           "limits": {"tf32": 0.25}, "trials": list(trials), "refused": "", "notes": []}  # fmt: skip
    return its | {"session": session} | more


PROBLEMS = {
    "level1/2_Fast": row("L1/2", [trial(0.5, ok=False), trial(0.5)]),
    "level1/10_Slow": row("L1/10", [trial(1.6)], session={"seconds": 40.0}),
    "level2/80_Gemm_Max": row("L2/80", [trial(0.001)]),
    "level3/1_Stays": row(
        "L3/1", uncovered=[{"op": "aten.gru", "line": 3, "reason": ""}, {"op": "aten.gru", "line": 4, "reason": ""}]
    ),
    "level3/2_Refused": row(
        "L3/2", timed={}, limits={}, refused="Line 4: it draws random numbers. No.",
        session={"state": "refused", "code": "random"},
    ),
    "level3/3_Half": row(
        "L3/3", [trial(1.0)], baselines(compiled=0), not_timed={"compile": "compile_tf32 was not timed: too slow"}
    ),
}  # fmt: skip
ABOUT = {"kind": "measured", "gpu": "NVIDIA H100", "gpus": 4, "at_once": 4, "driver": "580", "torch": "2.9",
         "sessions": {"classes": ["tf32"], "trials": 12}}  # fmt: skip


@pytest.fixture
def contents():
    return kernelbench.report({"about": ABOUT, "problems": PROBLEMS}, "tf32")


def geometric(*values):
    return pytest.approx(prod(values) ** (1 / len(values)))


def test_each_problem_is_ours_or_pytorchs_or_refused(contents):
    kinds = {r["name"]: r["kind"] for r in contents["rows"]}
    assert list(kinds) == list(PROBLEMS)  # 2 before 10
    assert [*kinds.values()] == [OURS, OURS, OURS, ITSELF, REFUSED, OURS]
    every = contents["levels"]["all"]
    assert (every["problems"], every[OURS], every[ITSELF], every[REFUSED]) == (6, 4, 1, 1)
    assert every["causes"] == {"random: Line 4: it draws random numbers": ["level3/2_Refused"]}
    assert every["itself"] == {"no program covers it: aten.gru": ["level3/1_Stays"]}
    assert every["not_timed"] == {"compile": 1} and every["slower_than_pytorch"] == 1


def test_means_are_over_each_way_of_pytorch_with_and_without_what_it_does_itself(contents):
    means = contents["levels"]["level 3"]["means"]
    ours, alone = means["every problem"]["ours"], means["without PyTorch itself"]["ours"]
    assert ours["eager"] == {"mean": geometric(1.0, 4.0), "of": 2}
    assert ours["eager_tf32"] == {"mean": geometric(0.5, 2.0), "of": 2}  # PyTorch as shipped takes twice as long
    assert ours["compile"] == {"mean": 0.25, "of": 1} and alone["compile"] == {"mean": 0.0, "of": 0}
    assert alone["eager_tf32"] == {"mean": 2.0, "of": 1} and alone["best"] == {"mean": 2.0, "of": 1}


def test_the_result_is_the_faster_of_ours_and_the_fastest_of_pytorchs_ways(contents):
    means = contents["levels"]["level 1"]["means"]["every problem"]
    assert means["ours"]["compile"]["mean"] == geometric(2.0, 1 / 1.6)
    assert means["result"]["compile"]["mean"] == geometric(2.0, 1.0) == means["result"]["best"]["mean"]
    assert means["result"]["eager"]["mean"] == geometric(8.0, 4.0)
    assert contents["levels"]["level 1"]["no_slower"] == {
        "ours": {"share": 0.5, "of": 2}, "result": {"share": 1.0, "of": 2},
    }  # fmt: skip


def test_degenerate_problems_are_left_out_of_means_on_their_own(contents):
    level = contents["levels"]["level 2"]
    assert level["degenerate"] == ["level2/80_Gemm_Max"]
    assert level["means"]["every problem"]["ours"]["eager"]["of"] == 1
    assert level["means"]["without degenerate"]["ours"]["eager"]["of"] == 0
    every = contents["levels"]["all"]["means"]["without both"]["ours"]["eager"]
    assert every == {"mean": geometric(8.0, 2.5, 4.0), "of": 3}


def test_fast_p_is_of_all_problems(contents):
    fast = contents["levels"]["all"]["fast"]["eager"]
    assert dict(zip(FAST, fast["ours"], strict=True)) == pytest.approx(
        {0.5: 4 / 6, 0.8: 4 / 6, 1.0: 4 / 6, 1.5: 4 / 6, 2.0: 4 / 6, 3.0: 3 / 6, 5.0: 2 / 6}, abs=1e-3
    )
    assert fast["result"][:3] == pytest.approx([5 / 6] * 3, abs=1e-3) and fast["timed"] == 5


def test_times_are_medians_and_the_worst_come_first(contents):
    level = contents["levels"]["level 1"]
    assert level["seconds"] == 30.0 and level["first"] == (10.0 + 7.0) / 2  # the first trial of the first is not right
    worst = contents["worst"]
    assert [w["name"] for w in worst] == [
        "level1/10_Slow", "level3/1_Stays", "level3/3_Half", "level1/2_Fast", "level2/80_Gemm_Max",
    ]  # fmt: skip
    assert (worst[0]["gap"], worst[1]["gap"], worst[1]["stays"]) == (6.4, 4.0, {"aten.gru": 2})


def test_it_prints_and_writes_what_it_says(tmp_path, capsys):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"about": ABOUT, "problems": PROBLEMS}))
    assert kernelbench.main([str(path)]) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "r.report.md").read_text() == text
    for words in (
        "4 x NVIDIA H100, 4 sessions at once on each", "| level 1 | 2 | 2 | 1 | 0 | 0 | 50% of 2 | 100% of 2 | 30.0 |",
        "| level3/1_Stays | PyTorch | 1 | 4.00 |  | aten.gru x2 |", "Degenerate: level2/80_Gemm_Max.",
        "- Refused, 1: random: Line 4: it draws random numbers (level3/2_Refused)",
        "Not timed (the rows say why): torch.compile TF32 of 1.", "### level 1, 2 problems",
    ):  # fmt: skip
        assert words in text, words
    assert json.loads((tmp_path / "r.report.json").read_text())["levels"]["all"]["problems"] == 6


def test_a_report_quotes_no_line_of_a_module():
    refused = row("L3/2", refused="Line 4, `h = torch.randn(8)`, draws random numbers. No.", session={"code": "random"})
    assert kernelbench.case("level3/2_x", refused, "tf32").cause == "random: Line 4 draws random numbers"


def test_a_file_without_results_is_refused_in_a_sentence(tmp_path, capsys):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"about": ABOUT, "problems": {}}))
    assert kernelbench.main([str(path)]) == 2
    assert "has no finished session yet" in capsys.readouterr().err
    assert kernelbench.main([str(tmp_path / "none.json")]) == 2
