"""The study writes what it has after each shape, and the same command goes on with the rest."""

import json

import pytest

from engine.bench.studies.shape_groups import __main__ as command
from engine.bench.studies.shape_groups.copies import Copies
from engine.bench.studies.shape_groups.saved import Saved
from engine.bench.studies.shape_groups.study import Row, Study
from engine.suite.shape_groups import GROUPS, ShapeGroup
from sol.hardware import load

TIMED = {"trial": 1, "ms": 1.0, "kind": "measured", "speedup": 2.0, "baseline": "eager", "bandwidth": 0.8}
GROUP = command.spread(GROUPS["silu_and_mul"], 2)


class Cut(BaseException):
    """The time is up."""


def session(spec_name):
    best = TIMED | {"compiled": None}
    configurations = [{"settings": {"v": 1}, **best}]
    return {"best": best, "configurations": configurations, "template": {"text": ""}, "name": spec_name}


class Played(Study):
    """Sessions without processes. `cut`: the number of the session in which the time is up."""

    cut = 0

    def _play(self, group, shape, cls, strategy, options):
        if len(self.sessions.ended) + 1 == self.cut:
            raise Cut
        return session(strategy)


def study(cut=0, ended=None):
    copy = {"bytes": 1, "ms": 0.5, "kind": "measured", "method": ""}
    played = Played("cuda", "kernel", 4, 1, 0, None, load("h200"), True, Saved(ended), Copies(lambda moved: copy))
    object.__setattr__(played, "cut", cut)
    return played


def test_a_run_that_is_cut_keeps_the_rows_of_the_shapes_that_it_has():
    written = []
    with pytest.raises(Cut):
        Row(study(cut=4), GROUP, "f16", lambda row: written.append(json.dumps(row))).run(lambda line: None)
    row = json.loads(written[-1])
    assert not row["ended"] and [s["shape"] for s in row["shapes"]] == [[16, 14336]]
    (first,) = row["shapes"]
    assert first["own"]["best"]["ms"] == 1.0 and first["shares"]["direct"] == {"bandwidth": 0.8, "copy": 0.5}
    assert row["summary"]["own_tuned"]["right"] == 1


def test_the_next_run_plays_the_sessions_that_are_missing_and_ends_the_row():
    ended = {}
    with pytest.raises(Cut):
        Row(study(cut=4, ended=ended), GROUP, "f16", lambda row: None).run(lambda line: None)
    before = dict(ended)
    row = Row(study(ended=ended), GROUP, "f16", lambda row: None).run(lambda line: None)
    assert row["ended"] and row["general"]["settings"] == {"v": 1} and all(ended[n] is before[n] for n in before)
    assert (
        all(s["general"] and s["shares"]["general"]["copy"] == 0.5 for s in row["shapes"]) and len(row["shapes"]) == 4
    )


def test_on_a_predicted_device_the_command_writes_rows_with_a_predicted_copy(tmp_path, monkeypatch, capsys):
    small = ShapeGroup("silu_and_mul", ((16, 512), (32, 512)), ((48, 256), (64, 256)))
    monkeypatch.setattr(command, "GROUPS", GROUPS | {small.name: small})
    out = tmp_path / "groups.json"
    argv = ["--device", "modelled:h200", "--only", "silu_and_mul", "--shapes", "1", "--trials", "2"]
    assert command.main([*argv, "--json", str(out)]) == 0
    row = json.loads(out.read_text(encoding="utf-8"))["rows"][0]
    assert row["ended"] and row["shapes"][0]["copy"]["kind"] == "predicted"
    assert row["summary"]["own_tuned"]["copy"] > 0.8 > 0.2 > row["summary"]["own_tuned"]["bandwidth"], "a launch"
    assert "of a predicted copy" in capsys.readouterr().out


def test_a_cut_group_goes_from_its_first_shape_to_its_last():
    group = GROUPS["silu_and_mul"]
    three = command.spread(group, 3)
    assert three.tuned == tuple(group.tuned[i] for i in (0, 2, 4))
    assert three.unseen == tuple(group.unseen[i] for i in (0, 1, 3))
    assert command.spread(group, 1).tuned == (group.tuned[2],), "the middle one"
    assert command.spread(group, 0) == command.spread(group, 9) == group


def test_direct_rewriting_can_be_asked_for_at_some_shapes_alone():
    few = {GROUP.tuned[1]}
    row = Row(study(), GROUP, "f16", lambda row: None, few).run(lambda line: None)
    assert [s["direct"] is not None for s in row["shapes"]] == [False, True, False, False]
    assert row["ended"] and all(s["own"] and s["general"] for s in row["shapes"])


def test_shapes_can_be_cut_and_unknown_names_are_refused(capsys):
    assert (len(GROUP.tuned), len(GROUP.unseen)) == (2, 2)
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
    assert "none of silu_and_mul" in capsys.readouterr().err
    for argv, words in ((["--json", "/nowhere/x.json"], "folder that exists"), (["--at-once", "0"], "from 1")):
        with pytest.raises(SystemExit):
            command.main(argv)
        assert words in capsys.readouterr().err


def test_a_session_that_ended_is_written_at_once_and_not_played_again():
    writes, played = [], []
    ended = {}
    sessions = Saved(ended, lambda: writes.append(dict(ended)))

    def play():
        played.append(1)
        return {"best": None}

    assert sessions.once("one", play) == sessions.once("one", play) == {"best": None}
    assert len(played) == 1 and writes == [{"one": {"best": None}}]


def test_only_a_run_of_the_same_request_goes_on(tmp_path):
    out = tmp_path / "out.json"
    request = {"gpu": "a", "driver": "1", "model": "m", "skill": 1.0, "seed": 0, "form": "kernel", "trials": 6}
    request |= {"version": 2}
    assert command._earlier(out, request) == {}
    out.write_text(json.dumps({**request, "sessions": {"one": {}}}))
    assert command._earlier(out, request) == {"sessions": {"one": {}}, "copies": {}, "rivals": {}}
    assert command._earlier(out, {**request, "trials": 8}) == {}
    assert command._earlier(out, {**request, "version": 1}) == {}, "its ratios over torch.compile were of one mode"
