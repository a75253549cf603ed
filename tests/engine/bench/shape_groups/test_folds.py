"""What sessions over a group of shapes come to: the general configuration keeps to what every shape timed."""

import json

import pytest

from engine.bench.studies.shape_groups import folds
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies import registry
from engine.strategies.api import Reply
from engine.strategies.two_stage.options import read_preset
from sol.hardware import load
from tests.engine.session.scripted import Searching, of

H200 = load("h200")


def session(**times):
    rows = [{"settings": {"v": int(name[1:])}, "ms": ms} for name, ms in times.items()]
    return {"configurations": rows}


def test_the_general_configuration_loses_least_over_the_shapes():
    sessions = [session(v1=1.0, v2=1.2, v4=2.0), session(v1=3.0, v2=1.1, v4=1.0), session(v2=1.0, v1=1.5)]
    settings, loss = folds.general(sessions)
    assert settings == {"v": 2} and loss == pytest.approx((1.2 * 1.1) ** (1 / 3))
    assert folds.general([session(v1=1.0), session(v2=1.0)]) is None
    assert folds.general([session(v1=1.0), session()]) is None and folds.general([]) is None


def test_candidates_are_the_fastest_of_each_shape_in_turns_each_once():
    sessions = [session(v1=2.0, v2=1.0, v4=3.0), session(v2=1.0, v8=2.0)]
    assert [c["v"] for c in folds.candidates(sessions, 3)] == [2, 1, 8]


@pytest.fixture(scope="module")
def played():
    two, player = registry.available()["two_stage"], Player()
    searching = Searching(two(two.Options(rounds=1, evaluations=4)), trials=8,
                          handlers={"ask": lambda ask, turn: Reply(player.reply(ask.prompt))})  # fmt: skip
    return searching.run()


def test_a_session_is_folded_from_its_log_and_its_template_can_be_preset_to_another(played):
    row = folds.session_of(played, H200)
    ms = {e.trial: e.ms for e in of(played, events.TrialJudged)}
    assert row["best"]["ms"] == min(ms.values()) and row["naive"] is None and len(row["configurations"]) == 5
    assert row["configurations"][0]["trial"] == 1
    gap = next(e.gap for e in of(played, events.TrialJudged) if e.trial == row["best"]["trial"])
    assert row["best"]["bandwidth"] == pytest.approx(H200.bandwidth / H200.copy_rate / gap)
    chosen = folds.candidates([row], 2)
    template = {n: v for n, v in row["template"].items() if n != "language"}
    text = json.dumps({"template": template, "configurations": chosen})
    preset = read_preset(text)
    assert preset.template.text == row["template"]["text"] and preset.template.inequalities
    two = registry.available()["two_stage"]
    again = Searching(two(two.Options(preset=text)), trials=8).run()
    assert [e.facts["ms"] for e in of(again, events.Shown) if e.topic == "search"] == [
        r["ms"] for s in chosen for r in row["configurations"][1:] if r["settings"] == s
    ]


def test_torch_compile_is_its_faster_mode_and_compared_through_the_baseline_that_both_clocks_timed():
    baselines = {"eager": 10.0, "compile": 4.0, "compile_max": 20.0}
    assert folds.over_compile(2.0, "eager", baselines) == pytest.approx(2.0 * 4.0 / 10.0)
    tf32 = {"eager": 10.0, "eager_tf32": 8.0, "compile_tf32": 6.0}
    assert folds.over_compile(2.0, "eager_tf32", tf32) == pytest.approx(2.0 * 6.0 / 8.0)
    assert folds.over_compile(2.0, "eager", {"eager": 10.0}) is None
    assert folds.over_compile(2.0, "eager_f16", baselines) is None
