"""A bench becomes a report, figures and tables, all computed from its file; the causes alone are written by hand."""

import json

import pytest

from engine.bench.report import bench_report, collect, publish
from engine.bench.report.charts import fast_p, share, speedup_gap
from engine.bench.report.table import lines

BASE = {"eager": {"ms": 8.0, "ratio": 4.0, "key": "k"}, "eager_tf32": {"ms": 2.0, "ratio": 1.0, "key": "k"},
        "compile": {"ms": 1.6, "ratio": 0.8, "seconds": 9.0, "ahead": True, "key": "k"}}  # fmt: skip
CHECKS = [{"name": "kernels", "verdict": "passed", "said": "its own"},
          {"name": "streams", "verdict": "minor", "said": "two streams"}]  # fmt: skip

BROKEN = {"class": "tf32", "backend": "cpp", "change": "c", "text": "t", "ok": False, "failed": "build",
          "message": "error in /tmp/x1/kernel.cu(7): no"}  # fmt: skip


def trial(ms, text, cls="tf32", **more):
    return {"class": cls, "backend": "cpp", "change": "c", "text": text, "ok": True, "ms": ms, "ratio": 2.0 / ms,
            "error": 1e-4, "checks": CHECKS, "derived": cls, "seconds": 0.5,
            "build_seconds": 20.0, "why": "w"} | more  # fmt: skip


@pytest.fixture
def bench(tmp_path):
    """Two problems with programs, one without."""
    row = {"baselines": BASE, "refused": "", "limits": {"tf32": 0.5, "f16": 0.3}, "spent": {"trace": 1.0}}
    problems = {
        "matmul_square": {
            **row,
            "id": "L1/1",
            "trials": [trial(1.0, "slow"), trial(0.9, "fast"), trial(0.1, "less", algebraic="a sum", limit_ms=0.1)],
        },
        "conv1d_long": {**row, "id": "L1/67", "trials": [trial(2.0, "conv"), BROKEN]},
        "matmul_tril": {**row, "id": "L1/15", "trials": [], "refused": "no rule takes it | yet"},
    }
    about = {"date": "2026-11-21", "gpu": "NVIDIA H200", "driver": "580", "toolchain": {"torch": "2.11.0"}}
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"about": about, "problems": problems}))
    return collect.bench(path)


def test_what_is_committed_keeps_the_best_ones_text_and_the_checks_that_said_something(bench):
    first = bench["problems"]["matmul_square"]
    assert [t.get("text") for t in first["trials"]] == [None, "fast", None]
    assert [c["name"] for c in first["trials"][0]["checks"]] == ["streams"]
    assert "key" not in first["baselines"]["eager"]
    assert bench["problems"]["conv1d_long"]["trials"][1]["message"] == "error in FILE(7): no"
    assert bench["command"].endswith("bench suite59 --device cuda --class tf32 --trials 3 --compile --json bench.json")


def test_the_report_has_every_problem_and_says_what_counts_how(bench):
    text = bench_report.markdown(bench, "bench-x.json")
    assert "| L1/1 matmul_square | 8.0000 | 2.0000 | 1.6000 | 0.9000 | 8.89 | 1.78 | tf32 |" in text
    assert "minor, algebraic 0.1000 ms" in text
    assert "no program: no rule takes it / yet" in text  # a bar would end the cell
    assert "2 of 3 problems have a right program" in text and "(aim: at least 4x), not reached" in text
    assert "algebraic, so not counted: matmul_square (0.1000 ms: a sum)" in text
    assert "seconds a problem with warm workers: 22 (aim: under 60)" in text
    assert "torch.compile runs with TF32 allowed in every class" in text


def test_an_aim_that_was_missed_says_so(bench):
    s = bench_report.summary(bench["problems"], "tf32") | {"seconds": 84.0, "trials": 13.0}
    sentences = bench_report.aims(s, "tf32")
    assert "seconds a problem with warm workers: 84 (aim: under 60), not reached" in sentences
    assert "trials a problem: 13.0 (aim: at most 12), not reached" in sentences


def test_the_readmes_sentence_says_what_stands_without_guards_and_whether_the_aim_of_seconds_is_met(bench):
    assert bench_report.short_table(bench).endswith(
        "\n\nThe aim of under 60 s a problem with warm workers is met in tf32 (22 s)."
    )
    problems = bench["problems"]
    problems["conv1d_long"]["trials"].append(trial(0.8, "guarded", roof="f16"))
    bench["problems"]["matmul_square"]["spent"]["trace"] = 200.0
    sentence = bench_report.short_table(bench).splitlines()[-1]
    over = bench_report.summary(bench_report.unguarded(problems), "tf32")["over"]
    assert over["eager"] == pytest.approx((80 / 9 * 4) ** (1 / 3))
    assert sentence.startswith(
        f"Without guarded f16 programs the same data give in tf32 {over['eager']:.2f}x eager as shipped, "
        f"{over['compile']:.2f}x torch.compile and 2 problems below 0.95x of the best baseline (1 problem without a "
    )
    assert sentence.endswith("; the aim of under 60 s a problem with warm workers is missed in tf32 (122 s).")


def test_what_is_furthest_comes_first_and_a_missing_cause_is_shown_as_such(bench, monkeypatch):
    cause = {"tf32": {"conv1d_long": {"profile": "one kernel", "cause": "three channels", "help": "pad to four"}}}
    monkeypatch.setattr(bench_report, "causes", lambda: cause)
    rows = bench_report.furthest_table(bench, "tf32").splitlines()[2:]
    assert [r.split(" | ")[0] for r in rows] == ["| L1/15 matmul_tril", "| L1/67 conv1d_long", "| L1/1 matmul_square"]
    assert "8.0000 (eager)" in rows[0] and rows[0].count(bench_report.MISSING) == 3
    assert rows[1].endswith("| one kernel | three channels | pad to four |")


def test_fast_p_counts_every_problem_and_one_without_a_program_as_eager(bench):
    figure = fast_p(lines(bench["problems"], "tf32"), "tf32")
    eager = next(t for t in figure.figure["data"] if t["name"] == "eager as shipped")
    shares = [r["eager as shipped"] for r in figure.rows if r["p"] in (0.8, 1.0, 5.0)]
    assert shares == pytest.approx([1, 2 / 3, 1 / 3], abs=1e-4)
    assert eager["x"][0] == 0.5 and eager["x"][-1] == 10.0 and sorted(eager["y"], reverse=True) == eager["y"]
    assert {t["name"] for t in figure.figure["data"]} == {"eager as shipped", "eager TF32", "torch.compile"}
    assert share([], 1.0) == 0.0 and json.dumps(figure.figure)


def test_speedup_and_gap_are_of_the_best_trial_over_the_best_baseline(bench):
    figure = speedup_gap({"tf32": lines(bench["problems"], "tf32")})
    first = {"problem": "matmul_square", "class": "tf32", "speedup": 1.778, "over": "torch.compile", "gap": 1.8}
    assert figure.rows[0] == first
    assert len(figure.rows) == 2 and json.dumps(figure.figure)


def test_a_table_goes_between_its_marks_and_nowhere_else():
    text = f"before\n{publish.MARK.format('bench', 'old', 'bench')}\nafter"
    new = publish.marked(text, "bench", "| new |")
    assert new == f"before\n{publish.MARK.format('bench', '| new |', 'bench')}\nafter"
    assert publish.marked(new, "bench", "| new |") == new
    with pytest.raises(ValueError, match="no marks named other"):
        publish.marked(text, "other", "")


def test_everything_made_from_the_committed_bench_is_as_it_would_be_made():
    """Fails after new data or a new cause: `python -m engine.bench.report.publish` makes it all again."""
    files = publish.from_committed()
    if files is None:
        pytest.skip("no bench of the suite is committed yet")
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_modules_outside_the_suite_are_told_by_what_is_covered(bench):
    row = {"id": "outside", "baselines": BASE, "trials": [], "refused": "", "limits": {"tf32": 0.5}}
    part = {"region": {"share": {"time": 0.45}}, "trials": [trial(1.0, "p")]}
    problems = {
        "moe": {**row, "regions": ["moe#1", "moe#2"], "uncovered": [{"op": "slice", "line": 21, "reason": "no rule"}]},
        "moe#1": {**row, **part}, "moe#2": {**row, **part}, "mlp": {**row, "trials": [trial(0.8, "q")]},
    }  # fmt: skip
    other = {**bench, "problems": problems}
    text = "\n".join(bench_report.outside("outside", other, "bench-outside.json"))
    assert "| moe | 90.0% in 2 regions | 8.00 | 2.00 | 1.60 | 1.0e-04 | minor | slice (line 21) |" in text
    assert "| mlp | whole | 10.00 | 2.50 | 2.00 | 1.0e-04 | minor |  |" in text
    assert "1.79x torch.compile" in text  # sqrt(1.6 * 2)
    assert "Modules outside the suite, 1 of 2 one program each" in bench_report.outside_sentence("outside", other)
    assert "torch.compile (of" not in text
    problems["mlp"]["baselines"] = {n: baseline for n, baseline in BASE.items() if n != "compile"}
    for t in problems["mlp"]["trials"]:
        t.pop("over", None)
    few = bench_report.outside_sentence("outside", other)
    assert "over 2 of 2 modules" in few and "1.60x torch.compile (of 1)" in few  # a mean over fewer says so
