"""A recorded sweep under the model: who it ranks first, how far off it is, and what counts."""

import json

import pytest

from dsl.check.program import check
from sol.__main__ import main
from sol.attainable import predict
from sol.hardware import load
from sol.model.sweep import LEAST, Judged, Run, judge, program_text, total

H200 = load("h200")
PROGRAM = (
    "program p(x: f16[4096, 4096], w: f16[4096, 4096]) -> f16[4096, 4096] {\n"
    "  y = gemm(x, w.T) { backend cute epilogue relu(acc) }\n  return y\n}"
)
CONFIGS = [
    f"tile {m}x{n}x64 cluster {c}x1x1 schedule {s} scheduler persistent swizzle {z}"
    for m, n, s in ((128, 256, "cooperative"), (128, 128, "pingpong"), (64, 64, "pingpong"))
    for c in (1, 2)
    for z in (1, 2, 4, 8)
]


def sweep(ms_of, configs=CONFIGS):
    rows = [{"config": c, "ms": ms_of(i, c)} for i, c in enumerate(configs)]
    return json.dumps({"problems": [{"id": "square", "program": PROGRAM, "torch_ms": 0.2, "configs": rows}]})


def predicted(config):
    return predict(check(program_text({"program": PROGRAM}, config)).program, H200).ms


def test_a_device_that_behaves_as_the_model_says_is_known_perfectly():
    (one,) = judge(sweep(lambda i, c: predicted(c)), H200)
    assert (len(one.runs), one.regret, one.rank_of_best) == (24, 0, 1)
    assert one.error == pytest.approx(0) and total([one]).hits == 1


def test_a_device_that_does_the_opposite_is_a_miss():
    (one,) = judge(sweep(lambda i, c: 1 / predicted(c)), H200)
    assert one.rank_of_best > 4 and one.regret > 0.05
    assert total([one]).hits == 0


def test_error_and_bias_are_of_the_predicted_time():
    (one,) = judge(sweep(lambda i, c: 2 * predicted(c)), H200)
    assert one.error == pytest.approx(0.5) and one.bias == pytest.approx(-0.5)
    assert total([one]).error == pytest.approx(0.5)


def test_what_did_not_run_is_left_out_and_few_runs_are_not_counted():
    (one,) = judge(sweep(lambda i, c: None if i == 0 else predicted(c)), H200)
    assert len(one.runs) == 23
    with pytest.raises(ValueError, match=f"no problem has {LEAST}"):
        total([one])


def test_the_first_four_decide_not_the_first_one():
    runs = tuple(Run(str(i), ms, 1.0) for i, ms in enumerate((2.0, 2.0, 2.0, 1.04, 1.0)))
    assert Judged("x", runs).regret == pytest.approx(0.04)
    assert Judged("x", runs, top=3).regret == pytest.approx(1.0)


def test_the_command_prints_totals_and_problems(tmp_path, capsys):
    path = tmp_path / "sweep.json"
    path.write_text(sweep(lambda i, c: predicted(c)))
    assert main(["sweep", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# ") and "| all: 1 | 24 | 100% |" in out and "| square | 24 |" in out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a sweep"),
        ("[]", "not a sweep"),
        (sweep(lambda i, c: None), "problem square of the sweep: nothing was measured"),
        (sweep(lambda i, c: 1.0, ["tile 100x256x64"]), "problem square of the sweep: tile 100x256x64"),
    ],
)
def test_what_is_no_sweep_gets_one_line(tmp_path, capsys, text, says):
    path = tmp_path / "sweep.json"
    path.write_text(text)
    assert main(["sweep", str(path)]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
