"""The results of a bench under other stop rules, from the command line."""

import json
from pathlib import Path

import pytest

from sol.__main__ import main
from sol.replay import load, of_bench

BENCH = Path(__file__).parent / "bench_excerpt.json"  # four modules of a bench on an H200, without their programs


def test_a_bench_is_a_session_a_module_and_class_with_its_trials_in_order():
    raw = json.loads(BENCH.read_text())["problems"]["conv2d_relu_bias"]
    sessions = {s.name: s for s in load([str(BENCH)])}
    assert len(sessions) == 8  # four modules, two classes
    half, tf32 = sessions["L2/1 conv2d_relu_bias (f16)"], sessions["L2/1 conv2d_relu_bias (tf32)"]
    assert [t.ms for t in half.trials] == [t["ms"] for t in raw["trials"] if t["class"] == "f16"]
    assert (half.t_sol_ms, half.baseline_ms) == (raw["limits"]["f16"], raw["baselines"]["eager_f16"]["ms"])
    assert (tf32.t_sol_ms, tf32.baseline_ms) == (raw["limits"]["tf32"], raw["baselines"]["eager_tf32"]["ms"])


def lengthened(**changed):
    """The excerpt's conv2d_relu_bias in f16 with twelve trials: its two by turns, and what `changed` says."""
    raw = json.loads(BENCH.read_text())
    row = raw["problems"]["conv2d_relu_bias"]
    two = [t for t in row["trials"] if t["class"] == "f16"]
    row["trials"] = [{**two[i % 2], **changed.get(f"t{i}", {})} for i in range(12)]
    return json.dumps({**raw, "problems": {"conv2d_relu_bias": row}})


def test_a_failed_trial_and_one_below_the_limit_are_trials_that_brought_nothing():
    text = lengthened(t0={"ok": False, "ms": None}, t1={"ms": 0.2}, t2={"ok": False})
    (one,) = of_bench(text, "x")
    assert [t.ms is None for t in one.trials[:4]] == [True, True, True, False] and len(one.trials) == 12


def test_the_command_reads_benches_and_sends_recordings_to_the_engine(tmp_path, capsys):
    (tmp_path / "bench.json").write_text(lengthened())
    assert main(["replay", str(tmp_path / "bench.json"), "--window", "3"]) == 0
    assert "L2/1 conv2d_relu_bias (f16)  4/12" in capsys.readouterr().out
    (tmp_path / "a.jsonl").write_text("")
    assert main(["replay", str(tmp_path / "a.jsonl")]) == 2
    assert "`python -m engine replay` reads recordings" in capsys.readouterr().err


def test_a_module_without_a_baseline_or_without_a_trial_is_no_session(tmp_path, capsys):
    raw = json.loads(BENCH.read_text())
    raw["problems"] = {"a": raw["problems"]["matmul_square"] | {"baselines": {}}}
    (tmp_path / "b.json").write_text(json.dumps(raw))
    assert main(["replay", str(tmp_path / "b.json")]) == 2
    assert "no recorded session" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"problems": {"a": {}}}', '{"results": []}'])
def test_what_is_no_bench_gets_one_line(tmp_path, capsys, text):
    (tmp_path / "b.json").write_text(text)
    assert main(["replay", str(tmp_path / "b.json")]) == 2
    err = capsys.readouterr().err
    assert "b: not the results of a bench" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--eps", "-1", "'-1' is not a number from 0 up"),
        ("--eps", "nan", "is not a number from 0 up"),
        ("--window", "1.5", "'1.5' is not a whole number from 0 up"),
        ("--keep", "96", "'96' is not a number from 0 to 1"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_its_range(flag, value, message, capsys):
    with pytest.raises(SystemExit) as e:
        main(["replay", "sessions", f"{flag}={value}"])
    assert e.value.code == 2 and message in capsys.readouterr().err


def test_a_class_of_a_bench_that_is_no_session_is_named_with_its_reason(tmp_path, capsys):
    raw = json.loads(BENCH.read_text())
    del raw["problems"]["conv2d_relu_bias"]["baselines"]["eager_f16"]
    (tmp_path / "bench.json").write_text(json.dumps(raw))
    assert main(["replay", str(tmp_path / "bench.json"), "--json"]) == 0
    omissions = json.loads(capsys.readouterr().out)["omissions"]
    assert [(o["name"], o["why"]) for o in omissions] == [
        ("L2/1 conv2d_relu_bias (f16)", "PyTorch has no time in the class.")
    ]
