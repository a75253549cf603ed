"""A bench of sessions becomes the same report, figures and tables as the benches before it, and says what its problems
were: sessions with the page's settings."""

import json

import pytest

from engine.bench.report import bench_report, collect
from engine.bench.report.charts import fast_p
from engine.bench.report.page import page
from engine.bench.report.table import lines
from engine.session.spec import SessionSpec
from sol.replay import of_bench

SETTINGS = {n: v for n, v in SessionSpec(title="t", source="s", device="cuda").to_dict().items()
            if n not in ("title", "source", "source_kind")}  # fmt: skip
ABOUT = {
    "date": "2026-12-01", "gpu": "NVIDIA H200", "driver": "580", "toolchain": {"torch": "2.11.0"}, "kind": "measured",
    "device": "cuda", "hardware": "h200", "torch": "2.11.0", "sessions": SETTINGS,
}  # fmt: skip
BASE = {
    "eager": {"ms": 8.0, "cls": "f32", "ratio": 4.0}, "eager_tf32": {"ms": 2.1, "cls": "tf32", "ratio": 1.0},
    "eager_f16": {"ms": 1.0, "cls": "f16", "ratio": 0.5}, "compile": {"ms": 1.6, "cls": "tf32", "ratio": 0.8},
    "compile_f16": {"ms": 0.7, "cls": "f16", "ratio": 0.35},
}  # fmt: skip


def trial(cls, ms, ratio, text="text", **more):
    return {"trial": 1, "class": cls, "backend": "cute", "change": "c", "why": "w", "text": text, "ok": True, "ms": ms,
            "baseline": f"eager_{cls}", "baseline_ms": ms * ratio, "ratio": ratio, "ratio_low": ratio, "error": 1e-4,
            "checks": [], "derived": cls, "roof": cls, "algebraic": "", "verdict": "clean", "gap": 2.0, "score": 0.7,
            "seconds": 5.0, "scope": "full size", "call_ms": 1.0} | more  # fmt: skip


def session(pid, *trials, **more):
    its = {"state": "done", "code": "", "reason": "over", "seconds": 30.0, "ready_s": 6.0, "resumed": 0, "t": 1.0}
    return {"id": pid, "baselines": BASE, "beside": "eager_tf32", "limits": {"tf32": 0.5, "f16": 0.25},
            "trials": list(trials), "refused": "", "notes": [], "session": its} | more  # fmt: skip


PARTLY = {
    "coverage": {"share": {"flops": 1.0, "bytes": 0.8, "time": 0.9}, "regions": 2, "text": "2 regions cover 90%"},
    "uncovered": [{"op": "slice", "line": 21, "reason": "no rule"}],
}


def collected(tmp_path, problems, **about):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"about": ABOUT | about, "problems": problems}))
    return collect.bench(path)


@pytest.fixture
def bench(tmp_path):
    return collected(tmp_path, {
        "matmul_square": session("L1/1", trial("tf32", 1.0, 2.0), trial("f16", 0.5, 2.0)),
        "matmul_tril": session("L1/15", refused="it cannot be traced"),
    })  # fmt: skip


def test_the_command_that_makes_it_again_has_every_field_of_the_session_that_is_not_the_pages(bench, tmp_path):
    assert bench["command"].startswith("python -m engine bench suite59 ") and "--trials 12" in bench["command"]
    fields = ABOUT["sessions"] | {"strategy": "sweep", "compile": True, "classes": ["f16"], "trials": 24}
    other = collected(tmp_path, bench["problems"], sessions=fields)["command"]
    assert {"--strategy sweep", "--compile", "--class f16", "--trials 24"} <= {
        " ".join(pair) for pair in zip(other.split(), [*other.split()[1:], ""], strict=True)
    } | {"--compile"} and "--compile" in other
    assert "--json bench.json" in other


def test_the_report_says_that_each_problem_is_a_session_and_under_which_settings(bench):
    text = bench_report.markdown(bench, "bench-x.json")
    assert "Each problem is one session, as a page starts it: strategy `planner`, at most\n12 trials over" in text
    assert "teaches nothing" in text and "eps\n0.25 and window 6, seed 0" in text
    assert "torch.compile in f16" in text  # a way of its own: old benches had torch.compile with TF32 alone
    assert "| L1/15 matmul_tril |" in text and "no program: it cannot be traced" in text


def test_speedups_over_each_way_are_products_of_ratios(bench):
    (first, _) = lines(bench["problems"], "f16")
    assert first.over == pytest.approx({"eager": 16.0, "eager_tf32": 4.0, "eager_f16": 2.0, "compile": 3.2,
                                        "compile_f16": 1.4})  # fmt: skip
    assert (first.rival, first.seconds) == ("compile_f16", 11.0)
    assert "torch.compile in f16" in {t["name"] for t in fast_p([first], "f16").figure["data"]}
    row = page(bench, "bench-x.json")["classes"]["f16"]["rows"][0]
    assert row["cells"][4] == "1.40× (torch.compile in f16)"


def test_a_module_in_regions_is_told_as_a_whole(tmp_path):
    inside = {"region": 1, "region_ms": 0.4, "region_eager_ms": 1.0, "covered_ms": 0.6, "programs": 2}
    second = inside | {"region": 2, "region_ms": 0.2}
    trials = [trial("tf32", 1.2, 1.5, "one", part=inside), trial("tf32", 1.0, 1.8, "two", part=second)]
    other = collected(tmp_path, {"moe": session("outside", *trials, **PARTLY), "mlp": session("outside", trials[0])})
    assert [t.get("text") for t in other["problems"]["moe"]["trials"]] == ["one", "two"]  # the best of each region
    text = "\n".join(bench_report.outside("outside", other, "bench-outside.json"))
    assert "Speedups are of the module as a whole. The share is" in text
    assert "| moe | 90.0% in 2 regions | 7.20 | 1.80 | 1.44 |" in text and "slice (line 21)" in text
    assert "Modules outside the suite, 1 of 2 one program each" in bench_report.outside_sentence("outside", other)


def test_predictions_are_no_results(tmp_path):
    with pytest.raises(ValueError, match="its times are predictions for h200"):
        collected(tmp_path, {"a": session("L1/1", trial("tf32", 1.0, 2.0))}, kind="predicted")


def test_what_is_kept_is_replayed_as_one_session_a_class(bench):
    replayed = of_bench(json.dumps(bench), "bench")
    assert [(r.name, len(r.trials)) for r in replayed] == [("L1/1 matmul_square (tf32)", 1),
                                                         ("L1/1 matmul_square (f16)", 1)]  # fmt: skip
