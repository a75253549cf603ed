"""A bench over several GPUs: every module is dealt once, the shards weigh about the same, results join into one."""

import json

import pytest

from engine.__main__ import main
from engine.bench.run import shards
from engine.bench.run.request import Request
from engine.bench.run.results_file import ResultsFile
from engine.bench.run.runner import todo
from engine.suite import folder
from engine.suite.cases import module_set

SUITE = module_set("suite59")


@pytest.mark.parametrize("many", [1, 2, 4, 8])
def test_every_module_is_in_one_shard_and_the_shards_weigh_about_the_same(many):
    parts = [shards.deal(SUITE, (i + 1, many)) for i in range(many)]
    assert sorted(m for p in parts for m in p) == sorted(SUITE)
    known = shards.weights()
    loads = [sum(shards.FIXED + known[m] for m in p) for p in parts]
    assert max(loads) / min(loads) < 1.25


def test_the_heaviest_modules_go_to_different_shards_and_one_without_a_time_counts_as_usual():
    known = {"a": 90.0, "b": 80.0, "c": 1.0}
    parts = [shards.deal(dict.fromkeys("abcd", ""), (i, 2), known) for i in (1, 2)]
    assert [set(p) & {"a", "b"} for p in parts] == [{"a"}, {"b"}]
    assert sorted([*parts[0], *parts[1]]) == list("abcd")


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "a/b", "-1/4"])
def test_a_shard_that_is_none_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match="I/N"):
        shards.parse(text)


SETTINGS = {"strategy": "planner", "trials": 12}
ABOUT = {"gpu": "H200", "torch": "2.11", "sessions": SETTINGS}


def session(state="done", t=1.0, **more):
    its = {"state": state, "code": "", "reason": "", "seconds": 9.0, "ready_s": 1.0, "t": t}
    empty = {"id": "L1/1", "baselines": {}, "limits": {}, "trials": [], "refused": "", "notes": []}
    return empty | {"session": its} | more


def written(path, about, **problems):
    path.write_text(json.dumps({"about": about, "problems": problems}))
    return path


def test_shards_join_and_of_two_sessions_on_a_module_the_later_one_stands(tmp_path):
    a = written(tmp_path / "a", ABOUT | {"date": "2026-11-21"}, one=session(t=1.0, notes=["old"]))
    b = written(tmp_path / "b", ABOUT | {"date": "2026-11-22"}, one=session(t=2.0, notes=["new"]), two=session())
    for files in ([a, b], [b, a]):
        merged = shards.merge(files)
        assert set(merged["problems"]) == {"one", "two"} and merged["about"]["date"] == "2026-11-22"
        assert merged["problems"]["one"]["notes"] == ["new"]


def test_a_session_that_came_to_its_end_stands_before_a_later_one_that_failed(tmp_path):
    a = written(tmp_path / "a", ABOUT, one=session(t=1.0))
    b = written(tmp_path / "b", ABOUT, one=session("failed", t=2.0))
    assert shards.merge([a, b])["problems"]["one"]["session"]["state"] == "done"


def test_sessions_with_other_settings_are_not_joined(tmp_path):
    a = written(tmp_path / "a", ABOUT, one=session())
    b = written(tmp_path / "b", ABOUT | {"sessions": SETTINGS | {"trials": 24}}, two=session())
    with pytest.raises(shards.BadResults, match="other settings"):
        shards.merge([a, b])


def test_results_of_another_machine_are_not_joined(tmp_path, capsys):
    a = written(tmp_path / "a", ABOUT)
    b = written(tmp_path / "b", ABOUT | {"torch": "2.12"})
    assert main(["bench", "merge", str(a), str(b), "--json", str(tmp_path / "c")]) == 2
    assert "its torch is '2.12'" in capsys.readouterr().err and not (tmp_path / "c").exists()


def test_merge_writes_one_file_that_a_later_call_goes_on_from(tmp_path, capsys):
    failed = {"class": "tf32", "backend": "cpp", "change": "c", "text": "t", "ok": False, "message": "wrong",
              "seconds": 1.0}  # fmt: skip
    a = written(tmp_path / "a", ABOUT, one=session(trials=[failed]))
    b = written(tmp_path / "b", ABOUT, two=session(trials=[failed]))
    assert main(["bench", "merge", str(a), str(b), "--json", str(tmp_path / "c")]) == 0
    assert set(shards.read(tmp_path / "c")["problems"]) == {"one", "two"}
    assert "0 of 2 problems" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ['{"about": {}, "prob', "[1, 2]", '{"name": "notes"}', '{"about": {}, "problems": {"a": 3}}']
)
def test_a_bench_writes_over_no_file_that_is_not_its_own(text, tmp_path, capsys):
    out = tmp_path / "notes.json"
    out.write_text(text)
    assert main(["bench", "suite59", "--device", "modelled:h200", "--only", "L1/1", "--json", str(out)]) == 2
    assert f"{out} is not a results file of a bench" in capsys.readouterr().err and out.read_text() == text


def test_an_empty_file_is_a_results_file_that_has_nothing_yet(tmp_path):
    (tmp_path / "new.json").touch()
    assert ResultsFile(tmp_path / "new.json", {}).problems == {}


def test_a_class_that_is_none_is_refused_before_anything_runs(capsys):
    assert main(["bench", "suite59", "--device", "modelled:h200", "--class", "f8"]) == 2
    assert "f8' is not one of f32, tf32" in capsys.readouterr().err


def test_a_bench_that_is_interrupted_says_how_it_goes_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.bench.run.runner.run", interrupted)
    out = str(tmp_path / "new.json")
    assert main(["bench", "suite59", "--device", "modelled:h200", "--only", "L1/1", "--json", out]) == 1
    assert capsys.readouterr().out == f"stopped; the same command continues from {out}\n"


def test_a_bench_of_a_folder_that_its_time_ends_has_an_even_sample(tmp_path):
    names = [f"level{level}/{number}_a" for level in (1, 2, 3) for number in range(1, 41)]
    for name in names:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    waiting = todo(Request(folder.module_set(tmp_path), folder=tmp_path), ResultsFile(None, {}), 1)
    assert sorted(waiting) == sorted(names) and waiting != names
    for many in (6, 12, 30, 60):
        levels = [name.partition("/")[0] for name in waiting[:many]]
        assert all(abs(levels.count(f"level{level}") - many / 3) <= 1 for level in (1, 2, 3))
