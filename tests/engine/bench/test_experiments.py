"""Experiments with search policies: arms are data, proposals are fixed before the runs, recorded logs need no run."""

import json
import threading
from pathlib import Path

import pytest

from engine.__main__ import main as engine
from engine.bench.compare import proposals
from engine.bench.compare.request import Arm, BadRequest, Request
from engine.bench.studies.experiments import arms, recorded, report
from engine.bench.studies.experiments.__main__ import main
from engine.llm.rehearse import player
from engine.llm.rehearse.player import Player
from engine.llm.rehearse.server import Rehearsal
from sol.budget import STUDY
from tests.engine.bench.compare.rows import session, trial


def test_every_experiment_says_what_it_can_and_cannot_show_and_its_present_arms_are_a_comparison():
    for one in arms.EXPERIMENTS:
        assert one.shows.startswith("It shows") and one.shows_not.startswith("It cannot show") and one.seeds
        present = one.present()
        assert {a.name for a in present} | set(one.absent()) == {a.name for a in one.arms}
        if present:
            assert list(Request(present, ("low_rank_linear",), one.skills, one.seeds).cells())
    (phases, *_), drafts = arms.EXPERIMENTS, arms.EXPERIMENTS[1]
    assert not phases.absent() and phases.present()[1].memory == phases.present()[0].name
    assert {a.strategy for a in drafts.present()} >= {"best_of", "chain"}


def test_an_arm_that_this_version_cannot_play_is_left_out_with_the_reason():
    assert "no strategy nobody" in arms.missing(Arm("x", "nobody"))
    assert "does not take hops=3" in arms.missing(Arm("x", "flat", {"hops": 3}))
    with pytest.raises(BadRequest, match="no earlier arm"):
        Request((Arm("x", "mucutlass", {}, "later"), Arm("later", "mucutlass")), ("low_rank_linear",))


def test_the_runs_refuse_other_proposals_than_the_committed_ones(tmp_path, monkeypatch):
    drawn = [{"sha256": "a", "change": "tile", "ms": 1.0, "chance": 1.0}]
    monkeypatch.setattr(proposals, "candidates", lambda problem, cls, hardware: [dict(d) for d in drawn])
    path = tmp_path / "proposals.json"
    digest = proposals.write(path, ["p", "q"], "f16")
    assert proposals.checked(path, ["p"]) == {"file": "proposals.json", "sha256": digest}
    drawn[0]["ms"] = 1.0 + 1e-12  # another machine
    proposals.checked(path, ["p"])
    drawn[0]["sha256"] = "b"
    with pytest.raises(proposals.OtherProposals, match=r"p differ"):
        proposals.checked(path, ["p"])
    with pytest.raises(proposals.OtherProposals, match="no proposals for r"):
        proposals.checked(path, ["r"])


@pytest.mark.parametrize("many", [1, 2, 24])
def test_the_chances_are_those_of_the_players_draws(many):
    chances = [proposals.chance(place, many) for place in range(many)]
    assert sum(chances) == pytest.approx(1)
    assert many == 1 or chances[0] == player.STEP


def test_the_committed_proposals_are_of_the_problems_of_a_comparison():
    from engine.bench.compare.arguments import DEFAULT_PROBLEMS

    newest = max(recorded.RESULTS.glob("proposals-*.json"))
    assert set(json.loads(newest.read_text())["problems"]) >= set(DEFAULT_PROBLEMS)


def test_experiments_that_do_not_run_again_stay_in_the_file(tmp_path):
    path, one = tmp_path / "x.json", {"title": "A tree", "shows": "a.", "shows_not": "b.", "absent": {}}
    path.write_text(json.dumps({"about": {"date": "2026-11-01"}, "rehearsed": {"drafts": one}}))
    assert main(["--only", "recorded", "--json", str(path)]) == 0
    results = json.loads(path.read_text())
    assert results["rehearsed"] == {"drafts": one} and results["recorded"]["scheduler"]
    assert "## A tree (rehearsed, predicted)" in path.with_suffix(".md").read_text()


def test_every_experiment_is_committed_with_its_rows_and_the_proposals_of_its_runs():
    newest = max(recorded.RESULTS.glob("experiments-????-??-??.json"))
    results = json.loads(newest.read_text())
    assert set(results["rehearsed"]) == {e.name for e in arms.EXPERIMENTS} and results["recorded"]
    for one in results["rehearsed"].values():
        rows = json.loads((recorded.RESULTS / one["rows"]).read_text())
        drawn = recorded.RESULTS / one["proposals"]["file"]
        assert proposals.digest(drawn) == one["proposals"]["sha256"]
        assert one["sessions"] == len(rows["rows"]) and len(one["request"]["seeds"]) == 5 and one["shows_not"]


def test_recorded_logs_give_policies_schedules_and_attempts(tmp_path, capsys):
    assert main(["--only", "recorded", "--json", str(tmp_path / "x.json")]) == 0
    results = json.loads((tmp_path / "x.json").read_text())["recorded"]
    study = results["policies"]["study"]
    assert (study["eps"], study["window"]) == STUDY and study["speedup_kept"] > 0.95 and study["saved"]["seconds"] > 0
    at = {(r["set"], r["after"]): r for r in results["scheduler"]}
    assert at["suite59", 0.15]["sol"] > 0.93 > at["suite59", 0.15]["in_turn"]
    assert all(sorted(r["within"].values()) == list(r["within"].values()) for r in results["attempts"])
    text = (tmp_path / "x.md").read_text()
    assert text.count("(recorded)") == 3 and "It cannot show" in text and "250%, 12" in text


def test_a_session_of_a_comparison_replays_with_its_tokens():
    row = session(trial(2.0, tokens=100, t=1.0), trial(None, tokens=150, t=3.0), trial(4.0, tokens=400, t=4.0))
    one = recorded.of_row(row | {"limit_ms": 0.2})
    assert [t.ms for t in one.trials] == [0.5, None, 0.25]
    assert [t.spent for t in one.trials] == [
        {"tokens": 100.0, "seconds": 1.0}, {"tokens": 50.0, "seconds": 2.0}, {"tokens": 250.0, "seconds": 1.0},
    ]  # fmt: skip
    assert recorded.of_sessions([one], "tokens")["study"]["saved"]["tokens"] == 1 - 100 / 400
    assert recorded.of_row(session()) is None


def test_headings_of_rehearsed_experiments_say_so_and_absent_arms_are_named():
    one = {"title": "A tree", "shows": "It shows a.", "shows_not": "It cannot show b.", "absent": {"tree": "no optiml"}}
    text = report.markdown({"about": {"date": "2026-11-25"}, "rehearsed": {"drafts": one}})
    assert "## A tree (rehearsed, predicted)" in text and "Not run: tree, because no optiml." in text


def test_a_comparison_of_nothing_that_exists_is_refused_in_one_line(capsys):
    assert engine(["compare", "--strategies", "nobody"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no strategy 'nobody'")


def test_a_model_of_the_environment_answers_the_same_command_and_its_headings_name_it(tmp_path, monkeypatch, capsys):
    """A server that speaks chat completions stands for the model."""
    server = Rehearsal(("127.0.0.1", 0), Player())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "UCUTLASS_MODEL": "a-model"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UCUTLASS_VAR", str(tmp_path))
    monkeypatch.setenv("UCUTLASS_COMPILERS", "none")  # they change no time on a modelled device
    out = tmp_path / "x.json"
    try:
        argv = ["--only", "template", "--problems", "low_rank_linear", "--seeds", "0", "--json", str(out)]
        assert main(argv) == 0
    finally:
        server.shutdown()
        server.server_close()
    results = json.loads(out.read_text())
    one = results["led"]["template"]
    assert one["model"] == "a-model" and one["kind"] == "predicted" and one["sessions"] == 2 and not one["proposals"]
    assert set(one["arms"]) == {"two stages", "direct rewriting"} and (tmp_path / one["rows"]).name.endswith(
        "-led.json"
    )
    text = out.with_suffix(".md").read_text()
    assert "direct rewriting (a-model, predicted)" in text and "another model" in text
    assert "rehearsed, predicted" not in text and "skills" not in text.partition("## With a language model")[2]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_without_a_gpu_or_a_model_the_command_says_what_is_missing(tmp_path, monkeypatch, capsys):
    newest = max(recorded.RESULTS.glob("proposals-*.json"))
    monkeypatch.setattr(proposals, "checked", lambda path, problems: {"file": path.name, "sha256": "0" * 64})
    argv = ["--only", "template", "--json", str(tmp_path / "x.json"), "--device", "cuda"]
    assert main([*argv, "--proposals", str(newest)]) == 2
    assert "error: --device cuda: there is no NVIDIA GPU here" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(argv)
    assert "--proposals FILE for experiments with the rehearsal" in capsys.readouterr().err
