"""What sessions over a group of shapes come to: the general configuration keeps to what every shape timed."""

import json

import pytest

from engine.bench.studies import shape_folds, shape_groups
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies import registry
from engine.strategies.api import Reply
from engine.strategies.two_stage.options import read_preset
from engine.suite.shape_groups import GROUPS
from sol.hardware import load
from tests.engine.session.scripted import Searching, of

H200 = load("h200")


def session(**times):
    rows = [{"settings": {"v": int(name[1:])}, "ms": ms} for name, ms in times.items()]
    return {"configurations": rows}


def test_the_general_configuration_loses_least_over_the_shapes():
    sessions = [session(v1=1.0, v2=1.2, v4=2.0), session(v1=3.0, v2=1.1, v4=1.0), session(v2=1.0, v1=1.5)]
    settings, loss = shape_folds.general(sessions)
    assert settings == {"v": 2} and loss == pytest.approx((1.2 * 1.1) ** (1 / 3))
    assert shape_folds.general([session(v1=1.0), session(v2=1.0)]) is None
    assert shape_folds.general([session(v1=1.0), session()]) is None and shape_folds.general([]) is None


def test_candidates_are_the_fastest_of_each_shape_in_turns_each_once():
    sessions = [session(v1=2.0, v2=1.0, v4=3.0), session(v2=1.0, v8=2.0)]
    assert [c["v"] for c in shape_folds.candidates(sessions, 3)] == [2, 1, 8]


@pytest.fixture(scope="module")
def played():
    two, player = registry.available()["two_stage"], Player()
    searching = Searching(two(two.Options(rounds=1, evaluations=4)), trials=8,
                          handlers={"ask": lambda ask, turn: Reply(player.reply(ask.prompt))})  # fmt: skip
    return searching.run()


def test_a_session_is_folded_from_its_log_and_its_template_can_be_preset_to_another(played):
    row = shape_folds.session_of(played, H200)
    ms = {e.trial: e.ms for e in of(played, events.TrialJudged)}
    assert row["best"]["ms"] == min(ms.values()) and row["naive"] is None and len(row["configurations"]) == 5
    assert row["configurations"][0]["trial"] == 1
    gap = next(e.gap for e in of(played, events.TrialJudged) if e.trial == row["best"]["trial"])
    assert row["best"]["bandwidth"] == pytest.approx(H200.bandwidth / H200.copy_rate / gap)
    chosen = shape_folds.candidates([row], 2)
    template = {n: v for n, v in row["template"].items() if n != "language"}
    text = json.dumps({"template": template, "configurations": chosen})
    preset = read_preset(text)
    assert preset.template.text == row["template"]["text"] and preset.template.inequalities
    two = registry.available()["two_stage"]
    again = Searching(two(two.Options(preset=text)), trials=8).run()
    assert [e.facts["ms"] for e in of(again, events.Shown) if e.topic == "search"] == [
        r["ms"] for s in chosen for r in row["configurations"][1:] if r["settings"] == s
    ]


def test_means_and_lines_say_how_many_shapes_have_a_time():
    timed = {"bandwidth": 0.8, "speedup": 2.0, "compiled": None}
    arm = {"best": timed}
    shapes = [
        {"tuned": True, "own": arm, "direct": {"best": None}, "general": timed},
        {"tuned": True, "own": arm, "direct": arm, "general": None},
        {"tuned": False, "own": arm, "direct": arm, "general": timed},
    ]
    row = {"problem": "p", "cls": "f16", "why": "", "shapes": shapes}
    row["summary"] = shape_groups.summary(row)
    assert row["summary"]["general_tuned"]["right"] == 1 and row["summary"]["own_tuned"]["bandwidth"] == 0.8
    text = "\n".join(shape_groups.lines(row))
    assert "p f16 direct_tuned    80% of the measured bandwidth (least 80%), 2.00x PyTorch; right at 1 of 2" in text


def test_shapes_can_be_cut_and_unknown_names_are_refused(capsys):
    cut = shape_groups._first(GROUPS["silu_and_mul"], 2)
    assert (len(cut.tuned), len(cut.unseen)) == (2, 2)
    with pytest.raises(SystemExit):
        shape_groups.main(["--only", "nothing"])
    assert "none of silu_and_mul" in capsys.readouterr().err


def test_a_session_that_ended_is_written_at_once_and_not_played_again(tmp_path):
    writes, played = [], []
    ended = {}
    sessions = shape_groups.Sessions(ended, lambda: writes.append(dict(ended)))

    def play():
        played.append(1)
        return {"best": None}

    assert sessions.once("one", play) == sessions.once("one", play) == {"best": None}
    assert len(played) == 1 and writes == [{"one": {"best": None}}]


def test_only_a_run_of_the_same_request_goes_on(tmp_path):
    out = tmp_path / "out.json"
    request = {"gpu": "a", "driver": "1", "model": "m", "skill": 1.0, "seed": 0, "form": "kernel", "trials": 6}
    assert shape_groups._earlier(out, request) == {}
    out.write_text(json.dumps({**request, "sessions": {"one": {}}}))
    assert shape_groups._earlier(out, request) == {"one": {}}
    assert shape_groups._earlier(out, {**request, "trials": 8}) == {}
