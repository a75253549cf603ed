"""One report, three renderings, one sentence to take home."""

import json
import subprocess
import sys

import pytest
from suite59 import Builder, gemm_problem

from sol.__main__ import main
from sol.graph import Op, OpGraph, Tensor
from sol.hardware import HardwareError, load
from sol.report import Report, report

H200 = load("h200")


def scale_leaky():
    return gemm_problem("L2/12")


def test_the_report_says_what_binds_and_how_far_pytorch_is():
    r = report(scale_leaky(), H200, ["tf32", "f16"])
    assert r.bounds["tf32"]["bound_by"] == "matrix"
    assert r.bounds["tf32"]["ms"] == pytest.approx(0.2778, abs=1e-3)
    assert r.bounds["tf32"]["unfused_ms"] > r.bounds["tf32"]["ms"]
    assert r.baselines["tf32"]["kind"] == "predicted" and 1.2 < r.baselines["tf32"]["gap"] < 1.5
    assert r.totals["bytes"] == pytest.approx(335.6e6, rel=1e-3)
    assert [o["op"] for o in r.ops] == ["linear", "mul", "leaky_relu"]
    assert sum(o["share"] for o in r.ops) == pytest.approx(1)


def test_a_measured_baseline_replaces_the_prediction():
    r = report(scale_leaky(), H200, ["tf32"], measured={"tf32": 0.3624})
    assert r.baselines["tf32"] == {
        "ms": 0.3624, "kind": "measured", "gap": pytest.approx(1.3044, abs=1e-3), "score": 0.5, "error": None,
    }  # fmt: skip
    assert "takes 0.362 ms" in r.sentence


def test_a_module_that_only_takes_views_has_a_report_that_every_reader_of_json_takes():
    x, y = Tensor("x", (4, 8), "f32", "input"), Tensor("y", (8, 4), "f32", "intermediate")
    views = OpGraph({"x": x, "y": y}, (Op("t", "permute", ("x",), ("y",), {"dims": [1, 0]}),), ("x",), ("y",))
    r = report(views, H200, ["f32"], best={"f32": 0.01})
    assert "Infinity" not in r.to_json() and r.baselines["f32"]["gap"] is None is r.best["f32"]["gap"]
    assert r.to_html() and "| - |" in r.to_markdown()


def test_a_programs_time_is_given_gap_score_and_speedup():
    r = report(scale_leaky(), H200, ["tf32"], measured={"tf32": 0.3624}, best={"tf32": 0.3201})
    assert r.best["tf32"]["score"] == pytest.approx(0.667, abs=2e-3)  # half of the way from PyTorch to the limit
    assert r.best["tf32"]["speedup"] == pytest.approx(0.3624 / 0.3201)
    assert "Best so far" in r.to_markdown() and "Best so far" in r.to_html()
    assert "Best so far" not in report(scale_leaky(), H200, ["tf32"]).to_markdown()


@pytest.mark.parametrize(
    ("asked", "main"),
    [((), "tf32"), (("f16", "tf32"), "tf32"), (("f16",), "f16"), (("f32",), "f32"), (("bf16", "f16"), "bf16")],
)
def test_the_report_is_priced_in_a_class_that_was_asked_for(asked, main):
    r = report(scale_leaky(), H200, asked=asked)
    assert r.main == main and f"priced in {main}" in r.to_markdown()
    assert all(lever["cls"] == main for lever in r.levers)


def test_the_report_says_what_pytorch_holds_in_memory():
    r = report(scale_leaky(), H200, ["tf32"])
    state, one = 4 * (1024 * 8192 + 8192 * 8192 + 8192), 4 * 1024 * 8192
    assert r.memory == {"held": state, "peak": state + 2 * one, "peak_op": "mul_1"}
    assert "up to 369 MB at once, while mul_1 runs" in r.to_markdown()


def test_the_sentence_names_limit_roof_and_first_step():
    s = report(scale_leaky(), H200).sentence
    for part in ("336 MB", "137 GFLOP", "0.278 ms", "the matrix units", "predicted", "fuse mul, leaky_relu"):
        assert part in s
    assert s.endswith(".") and s.count(". ") == 0


def test_json_gives_the_same_report_back():
    r = report(scale_leaky(), H200)
    assert Report.from_json(r.to_json()) == r
    assert Report.from_json(r.to_json()).to_html() == r.to_html()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "nonsense": 2}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(ValueError, match=r"report"):
        Report.from_json(text)


def test_markdown_holds_the_tables():
    text = report(scale_leaky(), H200, ["tf32"]).to_markdown()
    assert "| tf32 | 0.278 ms | matrix units |" in text
    assert "linear_0" in text and "Fuse mul, leaky_relu into the epilogue" in text


def test_html_escapes_names_and_carries_no_script():
    b = Builder()
    y = b.op("relu", b.input("x", 8, 8))
    b.ops[-1] = type(b.ops[-1])('<img src=x onerror="1">', "relu", ("x",), (y,))
    text = report(b.done(y), H200).to_html()
    assert "<img" not in text and "&lt;img" in text
    assert "<script" not in text and "style=" not in text


def test_operations_priced_by_bytes_alone_are_named():
    b = Builder()
    y = b.op("fft_fft", b.input("x", 8, 8))
    r = report(b.done(y), H200)
    assert "Priced by bytes alone: fft_fft." in r.notes and r.bytes_only == ["fft_fft"]


def test_a_module_of_views_has_nothing_to_make_faster():
    b = Builder()
    y = b.op("reshape", b.input("x", 8, 8), shape=(64,))
    assert "nothing to make faster" in report(b.done(y), H200).sentence


def test_a_wrong_class_is_refused():
    with pytest.raises(HardwareError, match=r"'int3' does not apply.*tf32"):
        report(scale_leaky(), H200, ["int3"])


# ---- command line ---------------------------------------------------------------------------------------------


def test_the_command_line_reports_a_graph(tmp_path, capsys):
    path = tmp_path / "graph.json"
    path.write_text(scale_leaky().to_json())
    assert main(["report", str(path), "--gpu", "h100-sxm", "--class", "tf32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu"]["name"] == "h100-sxm"
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.startswith("## Speed of light on NVIDIA H200")


def test_times_from_the_command_line_enter_the_report(tmp_path, capsys):
    path = tmp_path / "graph.json"
    path.write_text(scale_leaky().to_json())
    assert main(["report", str(path), "--measured", "tf32=0.3624", "--best", "tf32=0.33"]) == 0
    out = capsys.readouterr().out
    assert "0.362 ms" in out and "1.10x" in out
    assert main(["report", str(path), "--best", "tf32:0.33"]) == 2
    assert "for example tf32=0.36" in capsys.readouterr().err
    assert main(["report", str(path), "--class", "tf32", "--measured", "f16=0.2"]) == 2
    assert "--measured f16: the report has the classes tf32; add `--class f16`" in capsys.readouterr().err


def test_the_command_line_lists_the_gpus(capsys):
    assert main(["gpus"]) == 0
    assert "rtx5090" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "gpu", "says"),
    [
        (None, "h200", "cannot read"),
        ("{", "h200", "not an op graph"),
        ("report", "h200", "this is a report, made from a graph; `python -m engine trace FILE` writes a graph"),
        ("{}", "h200", "it has no tensors; `python -m engine trace FILE` writes a graph"),
        ('{"tensors": [], "ops": 3, "inputs": [], "outputs": []}', "h200", "not an op graph"),
        ("good", "h9000", "no GPU is called 'h9000'"),
    ],
)
def test_mistakes_get_one_line(tmp_path, capsys, content, gpu, says):
    path = tmp_path / "graph.json"
    if content is not None:
        contents = {"good": scale_leaky().to_json, "report": report(scale_leaky(), H200).to_json}
        path.write_text(contents[content]() if content in contents else content)
    assert main(["report", str(path), "--gpu", gpu]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_what_pytorch_counts_and_what_must_be_done_stand_side_by_side():
    r = report(gemm_problem("L1/14"), H200, ["tf32"])  # triu(A @ B)
    assert r.totals["needed_flops"] < 0.51 * r.totals["matrix_flops"]
    assert r.ops[0]["needed"] == r.totals["needed_flops"] and "needed)" in r.to_markdown()
    assert any("137 GFLOP" in n and "68.7 GFLOP" in n and "must be done" in n for n in r.notes)
    assert "needed" not in report(scale_leaky(), H200, ["tf32"]).to_markdown()


def test_a_reader_who_has_seen_enough_is_no_error(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(scale_leaky().to_json())
    command = f"{sys.executable} -m sol report {path} --json | head -c 10"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", '{"gpu": {"')


# ---- words ----------------------------------------------------------------------------------------------------


def test_a_device_that_nobody_measured_has_no_column_of_measured_rates():
    assert "at measured rates" in report(scale_leaky(), H200).to_markdown()
    text = report(scale_leaky(), load("l40s")).to_markdown()
    assert "at measured rates" not in text and "Nothing was measured on NVIDIA L40S" in text
    assert "what the machine reports" in report(scale_leaky(), load("cpu")).to_markdown()


def test_float32_products_are_bound_by_the_pipes_that_do_them():
    sol_report = report(scale_leaky(), H200, ["f32"])
    assert sol_report.bounds["f32"]["bound_by"] == "vector" and sol_report.bounds["f32"]["parts"]["matrix"] == 0
    assert "| f32 | 2.05 ms | arithmetic pipes |" in sol_report.to_markdown()
    assert "matrix units" not in report(scale_leaky(), load("cpu"), ["f32"]).to_html()
    assert report(scale_leaky(), H200, ["tf32"]).bounds["tf32"]["bound_by"] == "matrix"


def test_where_algebra_helps_the_limit_holds_for_all_of_the_work_and_the_lower_one_is_given():
    b = Builder()
    y = b.op("div", b.op("mm", b.input("x", 1024, 8192), b.param("w", 8192, 8192), shape=(1024, 8192)), other=2.0)
    r = report(b.done(b.op("sum", y, shape=(1024, 1), dim=[1], keepdim=True)), H200, ["tf32"])
    assert "that does all of this work can be faster than 0.278 ms" in r.sentence
    assert "By algebra the limit is 62.9 µs: a sum over a product's columns" in r.sentence
    assert r.algebra["ms"]["tf32"] == pytest.approx(0.0629, rel=0.01)
    assert "all of this work" not in report(scale_leaky(), H200, ["tf32"]).sentence


def test_the_limit_of_a_convolution_holds_for_direct_ones():
    def limit(kernel):
        b = Builder()
        x, w = b.input("x", 16, 512, 64, 64), b.param("w", 512, 512, kernel, kernel)
        graph = b.done(b.op("conv2d", x, w, shape=(16, 512, 64, 64), padding=[kernel // 2] * 2))
        return report(graph, H200, ["tf32"]).sentence

    assert "SXM 141GB that convolves directly can be faster" in limit(3)
    assert "directly" not in limit(1)


def test_a_tiny_module_is_bound_by_its_launch_in_every_table():
    b = Builder()
    r = report(b.done(b.op("relu", b.input("x", 16, 64))), H200, ["f32"], best={"f32": 0.003})
    assert "| f32 | 1.71 ns | a launch: about 4 µs |" in r.to_markdown()
    assert r.to_markdown().count("| launch | - |") == 2 and "times that" not in r.sentence
    assert "launch | -" not in report(scale_leaky(), H200).to_markdown()


def test_every_word_of_the_table_is_explained():
    r = report(scale_leaky(), H200)
    for word in ("limit", "ridge", "gap", "score"):
        assert f"\n- {word}: " in r.to_markdown() and f"<dt>{word}</dt>" in r.to_html()


def test_next_to_nothing_is_said_in_words():
    b = Builder()
    sol_report = report(b.done(b.op("sum", b.input("x", 3), shape=())), H200)
    assert (
        "less than 1 ns. Starting a kernel takes about 4 µs, so the time is almost all kernel launches"
        in sol_report.sentence
    )
    assert "e-06" not in sol_report.to_markdown()


def test_a_module_that_does_not_fit_is_told_so():
    b = Builder()
    graph = b.done(b.linear(b.input("x", 1024, 131072), 131072))  # 68 GB of weights
    assert any("more than the 24 GB of NVIDIA GeForce RTX 4090" in n for n in report(graph, load("rtx4090")).notes)
    assert not any("more than" in n for n in report(graph, H200).notes)
