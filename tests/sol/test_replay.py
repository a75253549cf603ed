"""Recorded sessions under other stop rules, from the command line."""

import json
from pathlib import Path

import pytest

from engine.session import events
from engine.session.recording import write
from sol.__main__ import main
from sol.budget import sweep
from sol.replay import best, load, of_bench, recorded

BENCH = Path(__file__).parent / "bench_excerpt.json"  # four modules of a bench on an H200, without their programs


def session(path, times, cls="tf32"):
    """A recording as the engine writes it: limit 0.30 ms, PyTorch 0.40 ms, one trial a time (None fails)."""
    log = [
        events.SessionStarted("scale_leaky", "", "module", {"name": "cuda"}, "planner", [cls], {"trials": 9}),
        events.Reported("", {cls: 0.30}, "a sentence"),
        events.Baseline("eager_tf32", cls, events.Prediction(0.40, "t_attainable", "h200")),
    ]
    for i, ms in enumerate(times, 1):
        log.append(events.TrialProposed(i, cls, "", "cute", "a tile", "why"))
        if ms is None:
            log.append(events.TrialFailed(i, "compile", "compile_failed", "too big"))
        else:
            log.append(
                events.TrialJudged(i, "clean", cls, "predicted", ms, 0.4 / ms, "eager", ms / 0.3, 0.5, False, "")
            )
    log.append(events.SessionEnded("done", "the budget was used up", {cls: 1}, len(times), 3.0))
    write(path, [(i, float(i), e) for i, e in enumerate(log, 1)], {})
    return path


TIMES = [0.50, None, 0.36, 0.35, 0.37, 0.36, 0.36, 0.34, 0.33]


def test_a_recording_becomes_its_trials_with_limit_and_baseline(tmp_path):
    (one,) = load([str(session(tmp_path / "a.jsonl", TIMES))])
    assert (one.t_sol_ms, one.baseline_ms) == (0.30, 0.40)
    assert [t.ms for t in one.trials] == TIMES


def test_a_gamed_trial_counts_as_failed():
    rows = [
        {"kind": "reported", "data": {"bounds": {"f16": 0.3}}},
        {"kind": "baseline", "data": {"cls": "f16", "time": {"ms": 0.4}}},
        {"kind": "trial.judged", "data": {"trial": 1, "cls": "f16", "verdict": "gaming", "ms": 0.01}},
    ]
    (one,) = recorded("\n".join(map(json.dumps, rows)), "x")
    assert one.trials[0].ms is None


def test_the_command_prints_sessions_policy_and_front(tmp_path, capsys):
    session(tmp_path / "a.jsonl", TIMES)
    session(tmp_path / "b.jsonl", TIMES[::-1])
    assert main(["replay", str(tmp_path), "--eps", "0.2", "--window", "3", "--keep", "0.9"]) == 0
    out = capsys.readouterr().out
    assert "a (tf32)" in out and "3/9" in out and "within 20% of the limit" in out
    assert "efficiency gain" in out and "Saves most while keeping 90%" in out


def test_the_command_gives_everything_as_json(tmp_path, capsys):
    assert main(["replay", str(session(tmp_path / "a.jsonl", TIMES)), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["sessions"][0]["trials_total"] == 9 and len(out["grid"]) == 64 and out["front"]
    assert out["best"]["speedup_kept"] >= 0.96 and len(out["figure"]["rows"]) == 64


def test_the_best_policy_keeps_what_it_must(tmp_path):
    grid, _ = sweep(load([str(session(tmp_path / "a.jsonl", TIMES))]))
    assert best(grid, 0.96).speedup_kept >= 0.96
    assert best(grid, 1.1) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no events in it"),
        ("hello", "line 1: not an event"),
        ('{"seq": 1, "kind": "reported", "data": {}}', "line 1: not an event"),
        ('{"seq": 1, "kind": "progress", "data": {"text": ""}}', "no recorded session"),
    ],
)
def test_what_is_no_recording_gets_one_line(tmp_path, capsys, text, says):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    assert main(["replay", str(path)]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_the_figure_on_the_page_is_drawn_from_committed_sessions(capsys, monkeypatch):
    """Fails after new sessions: `python -m sol replay SESSIONS --figure > static/data/policies.json`."""
    root = Path(__file__).resolve().parents[2]
    shown = json.loads((root / "static/data/policies.json").read_text())
    monkeypatch.chdir(root)
    assert main(["replay", *shown["from"], "--figure"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    assert "recorded sessions" in shown["title"] and len(shown["rows"]) == 64


# ---- the results of a bench ----


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


def test_the_command_reads_benches_and_recordings_and_says_what_the_best_policy_saves(tmp_path, capsys):
    (tmp_path / "bench.json").write_text(lengthened())
    recording = session(tmp_path / "a.jsonl", TIMES)
    assert main(["replay", str(tmp_path / "bench.json"), str(recording), "--window", "3"]) == 0
    out = capsys.readouterr().out
    assert "L2/1 conv2d_relu_bias (f16)  4/12" in out and "a (tf32)" in out
    assert "--eps 0.05 --window 2 (57% of 21 trials saved, 97.1% kept, 2.27x efficiency)" in out


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
    ("flag", "value", "said"),
    [
        ("--eps", "-1", "'-1' is not a number from 0 up"),
        ("--eps", "nan", "is not a number from 0 up"),
        ("--window", "1.5", "'1.5' is not a whole number from 0 up"),
        ("--keep", "96", "'96' is not a number from 0 to 1"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_its_range(flag, value, said, capsys):
    with pytest.raises(SystemExit) as e:
        main(["replay", "sessions", f"{flag}={value}"])
    assert e.value.code == 2 and said in capsys.readouterr().err
