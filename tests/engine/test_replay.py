"""Recorded sessions under other stop rules, from the command line."""

import json
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.replay import read, recorded
from engine.session import events
from engine.session.fold.reduce import fold
from engine.session.recording import write
from sol.budget import sweep
from sol.replay import best, load
from tests.sol.test_replay import lengthened

ROOT = Path(__file__).resolve().parents[2]
TIMES = [0.50, None, 0.36, 0.35, 0.37, 0.36, 0.36, 0.34, 0.33]


def session(path, times, cls="tf32"):
    """A recording as the engine writes it: limit 0.30 ms, PyTorch 0.40 ms, one trial a time (None fails)."""
    log = [
        events.SessionStarted("scale_leaky", "", "module", {"name": "cuda"}, "planner", [cls], {"trials": 9}),
        events.Reported("", {cls: 0.30}, "a sentence"),
        events.Baseline("eager_tf32", cls, events.Measurement(0.40, 0.40, 0.40, [0.40], "events", {})),
    ]
    for i, ms in enumerate(times, 1):
        log.append(events.TrialProposed(i, cls, "", "cute", "a tile", "why"))
        if ms is None:
            log.append(events.TrialFailed(i, "compile", "compile_failed", "too big"))
        else:
            log.append(events.TrialJudged(i, "clean", cls, "measured", ms, 0.4 / ms, "eager", ms / 0.3, 0.5, False, ""))
    log.append(events.SessionEnded("done", "the budget was used up", {cls: 1}, len(times), 3.0))
    write(path, [(i, float(i), e) for i, e in enumerate(log, 1)], {})
    return path


def test_a_recording_becomes_its_trials_with_limit_and_baseline(tmp_path):
    (one,) = read(session(tmp_path / "a.jsonl", TIMES))
    assert (one.name, one.t_sol_ms, one.baseline_ms) == ("a (tf32)", 0.30, 0.40)
    assert [t.ms for t in one.trials] == TIMES


@pytest.mark.parametrize(
    "flaw", [{"verdict": "gaming"}, {"verdict": "clean", "algebraic": "leaves out a sum", "best": False}]
)
def test_a_trial_whose_time_is_no_result_counts_as_one_that_failed(flaw):
    kinds = [
        ("reported", {"bounds": {"f16": 0.3}}),
        ("baseline", {"name": "eager", "cls": "f16", "time": {"ms": 0.4, "kind": "measured"}}),
        ("trial.proposed", {"trial": 1, "cls": "f16"}),
        ("trial.judged", {"trial": 1, "cls": "f16", "ms": 0.01, "speedup": 40.0, "best": True, **flaw}),
    ]
    (one,) = recorded(fold({"seq": i, "kind": k, "t": 0.0, "data": d} for i, (k, d) in enumerate(kinds, 1)), "x")
    assert [t.ms for t in one.trials] == [None]


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
    assert out["sessions"][0]["trials_total"] == 9 and len(out["grid"]) == 96 and out["front"]
    assert out["best"]["speedup_kept"] >= 0.96 and len(out["figure"]["rows"]) == 96


def test_the_command_reads_benches_and_recordings_and_says_what_the_best_policy_saves(tmp_path, capsys):
    (tmp_path / "bench.json").write_text(lengthened())
    recording = session(tmp_path / "a.jsonl", TIMES)
    assert main(["replay", str(tmp_path / "bench.json"), str(recording), "--window", "3"]) == 0
    out = capsys.readouterr().out
    assert "L2/1 conv2d_relu_bias (f16)  4/12" in out and "a (tf32)" in out
    assert "--eps 0.05 --window 2 (57% of 21 trials saved, 97.1% kept, 2.27x efficiency)" in out


def test_the_best_policy_keeps_what_it_must(tmp_path):
    grid, _ = sweep(load([str(session(tmp_path / "a.jsonl", TIMES))], read))
    assert best(grid, 0.96).speedup_kept >= 0.96
    assert best(grid, 1.1) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a recording begins with session.started"),
        ("hello", "line 1 is not an event"),
        ('{"seq": 1, "kind": "reported", "t": 0, "data": {}}', "line 1 is not an event"),
    ],
)
def test_what_is_no_recording_gets_one_line(tmp_path, capsys, text, says):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    assert main(["replay", str(path)]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_trial_is_charged_with_the_turns_before_it(tmp_path, capsys):
    path = session(tmp_path / "a.jsonl", TIMES)
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"trial": 2' in line and "proposed" in line)
    turn = {"path": "1", "digest": "", "verb": "ask", "tokens": {"in": 90, "out": 10}, "cost": 0.5, "seconds": 1.0}
    row = json.loads(lines[at])
    lines.insert(at, json.dumps({"seq": 0, "kind": "turn.answered", "t": row["t"], "data": turn}))
    rows = [line for line in map(json.loads, lines) if "kind" in line]
    for seq, one in enumerate(rows, 1):
        one["seq"] = seq
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"blobs": {}}, *rows]))
    (one,) = read(path)
    assert [t.spent.get("tokens", 0) for t in one.trials] == [0, 100, 0, 0, 0, 0, 0, 0, 0]
    assert one.trials[1].spent["money"] == 0.5 and one.trials[1].spent["seconds"] > 0
    assert main(["replay", str(path), "--eps", "0.2", "--cost", "tokens", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["study"]["eps"] == 2.5 and out["study"]["window"] == 12 and out["study"]["saved"]["tokens"] == 0.0
    assert main(["replay", str(session(tmp_path / "b.jsonl", TIMES)), "--cost", "money"]) == 2
    assert "no session recorded money" in capsys.readouterr().err


def test_predicted_sessions_are_left_out_where_some_are_measured(tmp_path, capsys):
    recordings = ROOT / "playground/recordings"
    measured, predicted = (recordings / f"{name}.jsonl" for name in ("mlp_gelu", "agent_residual"))
    for path in (measured, predicted):
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def names(*sources):
        assert main(["replay", *map(str, sources), "--json"]) == 0
        return {session["name"].partition(" ")[0] for session in json.loads(capsys.readouterr().out)["sessions"]}

    assert names(predicted) == {"agent_residual"} and names(tmp_path) == names(measured) == {"mlp_gelu"}


def test_the_figure_on_the_page_is_drawn_from_committed_sessions(capsys, monkeypatch):
    """Fails after new sessions: `python -m engine replay SESSIONS --figure > static/data/policies.json`."""
    shown = json.loads((ROOT / "static/data/policies.json").read_text())
    monkeypatch.chdir(ROOT)
    assert main(["replay", *shown["from"], "--figure"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    assert "recorded sessions" in shown["caption"] and len(shown["rows"]) == 96


def test_the_owners_own_trials_are_no_part_of_the_search():
    kinds = [
        ("reported", {"bounds": {"f16": 0.3}}),
        ("baseline", {"name": "eager", "cls": "f16", "time": {"ms": 0.4, "kind": "measured"}}),
        ("trial.proposed", {"trial": 1, "cls": "f16", "by": "owner"}),
        ("trial.judged", {"trial": 1, "cls": "f16", "ms": 0.3, "speedup": 1.3, "best": True, "verdict": "clean"}),
        ("trial.proposed", {"trial": 2, "cls": "f16", "by": "strategy"}),
        ("trial.judged", {"trial": 2, "cls": "f16", "ms": 0.35, "speedup": 1.1, "best": False, "verdict": "clean"}),
    ]
    (one,) = recorded(fold({"seq": i, "kind": k, "t": 0.0, "data": d} for i, (k, d) in enumerate(kinds, 1)), "x")
    assert [t.ms for t in one.trials] == [0.35]


def asking(path, cost):
    """The recording of a session that asked one model for its second trial."""
    lines = [json.loads(line) for line in session(path, TIMES).read_text().splitlines()]
    at = next(i for i, row in enumerate(lines) if row.get("data", {}).get("trial") == 2)
    turn = {"path": "1", "digest": "", "verb": "ask", "model": "writer-2026-11", "cost": cost, "seconds": 1.0}
    lines.insert(at, {"kind": "turn.answered", "t": lines[at]["t"], "data": turn | {"tokens": {"in": 900, "out": 100}}})
    for seq, row in enumerate(lines[1:], 1):
        row["seq"] = seq
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    return path


def test_money_is_that_of_the_ledger_or_of_a_price_table_and_without_both_it_says_so(tmp_path, capsys):
    path, prices = str(asking(tmp_path / "a.jsonl", None)), tmp_path / "prices.json"
    assert main(["replay", path]) == 0
    out = capsys.readouterr().out
    assert "Money: no price was set for 1 turn of writer-2026-11." in out and "money saved" not in out
    assert main(["replay", path, "--cost", "money"]) == 2
    assert "no price was set for 1 turn of writer-2026-11. Give a table of prices" in capsys.readouterr().err
    prices.write_text('{"date": "2026-11-01", "models": {"writer": {"in": 100, "out": 1000}}}')
    assert main(["replay", path, "--cost", "money", "--prices", str(prices)]) == 0
    out = capsys.readouterr().out
    assert "the turns of models cost 0.19 US dollars by the price table of 2026-11-01." in out and "money saved" in out
    assert main(["replay", str(asking(tmp_path / "b.jsonl", 0.5)), "--prices", str(prices), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["money"].startswith("Money: the turns of models cost 0.5 US dollars")


def test_a_price_table_that_is_none_gets_one_line(tmp_path, capsys):
    (tmp_path / "prices.json").write_text("{}")
    assert main(["replay", str(session(tmp_path / "a.jsonl", TIMES)), "--prices", str(tmp_path / "prices.json")]) == 2
    assert "is no price table" in capsys.readouterr().err


def test_what_is_left_out_is_named_with_its_reason(capsys):
    paths = [str(ROOT / f"playground/recordings/{name}.jsonl") for name in ("linear_gelu_fp8", "agent_residual")]
    assert main(["replay", *paths]) == 0
    out = capsys.readouterr().out
    assert "PyTorch has no time in the class, so left out: linear_gelu_fp8 (fp8)." in out
    assert "Times are predicted, and these are not mixed with measured ones, so left out: agent_residual (f16)." in out
    assert main(["replay", *paths, "--json"]) == 0
    names = {row["name"]: row["why"] for row in json.loads(capsys.readouterr().out)["omissions"]}
    assert set(names) == {"linear_gelu_fp8 (fp8)", "agent_residual (f16)"} and all(names.values())
    assert main(["replay", *paths, "--figure"]) == 0
    assert "left out: agent_residual (f16)." in json.loads(capsys.readouterr().out)["caption"]
