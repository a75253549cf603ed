"""Results are taken from recordings, and what the repository says of them is what they say."""

import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pytest

from engine.bench.report import collect
from engine.bench.studies.pace import times_as_many
from engine.session import recording

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = ROOT / "playground/recordings"
RESULTS = ROOT / "engine/results"
DIV = RECORDINGS / "linear_div_gelu.jsonl"


def test_the_best_of_a_class_is_the_trial_that_the_session_named_with_its_own_baseline():
    results = collect.optimize([DIV])
    (module,) = results["modules"]
    rows = recording.read(DIV).rows
    for cls, n in rows[-1].data["best"].items():
        measured = next(r.data for r in rows if r.kind == "trial.measured" and r.data["trial"] == n)
        best = module["best"][cls]
        assert (best["ms"], best["ratio_low"]) == (measured["time"]["ms"], measured["ratio_low"])
        assert best["baseline_ms"] == measured["baseline_ms"]  # of the alternation, not of the baseline's own event
    assert results["driver"] and results["gpu"] and "linear_div_gelu" in module["command"]
    assert module["trials"] == sum(r.kind == "trial.proposed" for r in rows)


def test_a_session_of_another_toolchain_is_not_mixed_in(tmp_path):
    other = tmp_path / "zz.jsonl"
    other.write_text(DIV.read_text(encoding="utf-8").replace("torch 2.11.0", "torch 9.9.9"), encoding="utf-8")
    with pytest.raises(ValueError, match="is of another day, device or toolchain"):
        collect.optimize([DIV, other])


def test_the_newest_results_are_the_latest_and_of_one_date_the_last_by_name():
    names = ("a-h200-2026-11-30", "a-later-h200-2026-11-30", "b-h200-2026-11-29")
    assert collect.newest(Path(f"{name}.json") for name in names).stem == "a-later-h200-2026-11-30"
    assert collect.newest([]) is None


def day(path):
    return datetime.fromtimestamp(recording.read(path).rows[0].t, UTC).date().isoformat()


def measured(path: Path) -> bool:
    return recording.read(path).rows[0].data["device"].get("kind") == "measured"


def command(path: Path) -> str:
    """Of the session; "" if the app ran it."""
    return recording.read(path).rows[0].data["device"].get("command", "")


def test_the_committed_results_are_those_of_the_committed_recordings():
    """Fails after a recording was added or replaced: engine/results/README.md says how to collect again."""
    searched = [path for path in RECORDINGS.glob("*.jsonl") if measured(path) and "-m engine optimize" in command(path)]
    for date in {day(path) for path in searched}:
        (path,) = RESULTS.glob(f"optimize-*-{date}.json")
        same_day = [p for p in searched if day(p) == date]
        assert json.loads(path.read_text(encoding="utf-8")) == collect.optimize(same_day)


def test_the_readme_shows_the_committed_results():
    several = (p for p in RESULTS.glob("optimize-*.json") if len(json.loads(p.read_text("utf-8"))["modules"]) > 4)
    newest = max(several, key=lambda path: path.stem[-10:])
    assert collect.table(newest) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_suite_has_every_problem_right_and_its_table_is_of_its_data():
    newest = max(RESULTS.glob("suite59-*.json"), key=lambda path: path.stem[-10:])
    assert (RESULTS / "suite59.md").read_text(encoding="utf-8") == collect.suite_table(newest) + "\n"
    rows = json.loads(newest.read_text(encoding="utf-8"))["results"]
    assert len({r["id"] for r in rows}) == len({r["id"] for r in rows if r["ok"]}) == 59
    both = [r["agrees"] for r in rows if r.get("agrees")]
    assert both and all(a["error"] <= 2**-9 for a in both)  # f16's tolerance, the only class with both back ends


def test_the_matrix_has_no_configuration_that_passed_the_checks_and_failed_to_compile():
    newest = max(RESULTS.glob("matrix-*.json"), key=lambda path: path.stem[-10:])
    results = json.loads(newest.read_text(encoding="utf-8"))
    assert results["counts"]["configurations"] >= 400
    assert [r["name"] for r in results["results"] if not r["ok"] and "refused" not in r] == []


def test_the_zoo_was_judged_as_expected_on_a_gpu():
    newest = max(RESULTS.glob("zoo-*.json"), key=lambda path: path.stem[-10:])
    results = json.loads(newest.read_text(encoding="utf-8"))
    assert results["gpu"] and [r["name"] for r in results["results"] if not r["ok"]] == []
    zoo = ROOT / "tests/engine/integrity"
    assert all((zoo / r["where"] / r["name"]).exists() for r in results["results"])
    cheats = [r for r in results["results"] if "cheats" in r["where"]]
    assert len(cheats) >= 45 and len(results["results"]) - len(cheats) >= 25


@pytest.mark.parametrize("path", sorted(RESULTS.glob("pace-*.json")), ids=lambda path: path.stem)
def test_the_pace_is_what_its_rows_say(path):
    results = json.loads(path.read_text(encoding="utf-8"))
    sides = [results[name] for name in ("cute", "loop", "kernels") if name in results]  # perhaps one of them alone
    assert sides
    for side in sides:
        judged = [r["seconds"] for r in side["rows"] if not r["failed"]]
        assert side["trials"] == len(judged) and all(r.get("at", 0.0) <= side["seconds"] for r in side["rows"])
        assert side["trial_s"]["median"] == pytest.approx(median(judged), abs=2e-3)
    if {"cute", "loop"} <= results.keys():
        assert results["times_as_many"] == times_as_many(results["cute"], results["loop"])


def test_ten_kernels_took_the_same_time_twice_by_two_clocks():
    newest = max(RESULTS.glob("steady-*.json"), key=lambda path: path.stem[-10:])
    results = json.loads(newest.read_text(encoding="utf-8"))
    aims = results["aims"]
    assert len(results["results"]) == 10
    for r in results["results"]:
        assert abs(r["ratio"][0] - r["ratio"][1]) < aims["spread"] * max(r["ratio"]), r["name"]
        apart = abs(r["events_over_cupti"] - 1)
        assert r["cupti_ms"] < aims["from_ms"] or apart < aims["events_over_cupti"], r["name"]


def test_every_result_says_where_it_is_from_and_names_no_place_of_that_machine():
    for path in RESULTS.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        results = json.loads(text)
        assert "/work" not in text and "/tmp" not in text
        if path.name.startswith("proposals-"):  # drawn by rules alone; its hash names it in other results
            continue
        if path.name.startswith(("compare-", "experiments-")) and "gpu" not in results:
            # predicted: no GPU, driver or compiler has a part in it
            about = results.get("about", results)
            drawn = about.get("proposals") or [one["proposals"] for one in results["rehearsed"].values()]
            assert about["date"] and drawn and all(drawn), path.name
            continue
        assert {"date", "gpu", "driver", "toolchain"} <= results.keys(), path.name
        assert all("command" in part for part in results.get("modules", [results])), path.name
