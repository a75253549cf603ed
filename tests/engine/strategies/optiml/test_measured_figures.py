"""Figures that Nsight Compute measured are compared with measured ones, and predicted ones with predicted ones."""

import pytest

from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Reply
from engine.strategies.optiml import OptiML, OptimlOptions, figures, reward
from engine.strategies.optiml.figures import Figures
from tests.engine.session.scripted import Searching, of

PREDICTED = {"time": 1.0, "memory": 1e9, "compute": 1e12, "occupancy": 0.5, "instructions": 4000.0}
COUNTED = {"memory": 8e8, "occupancy": 0.4, "instructions": 3e6}


def part(value, name):
    return next(p for p in value.parts if p.name == name)


@pytest.mark.parametrize(
    ("after", "before", "by", "ratio"),
    [(COUNTED, {"memory": 4e8}, "measured", 2.0), (COUNTED, {}, "predicted", 0.5), ({}, COUNTED, "predicted", 0.5)],
)
def test_both_values_of_a_part_are_of_one_source(after, before, by, ratio):
    one = Figures(PREDICTED | {"memory": 5e8}, counted=after)
    other = Figures(PREDICTED, counted=before)
    memory = part(reward.of(one, other, reward.Weights()), "memory")
    assert memory.by == by and memory.after / memory.before == pytest.approx(ratio)
    assert memory.to_json()["by"] == by


def test_arithmetic_is_never_measured_and_the_time_has_its_own_kind():
    one = Figures(PREDICTED, counted=COUNTED, kind="measured")
    value = reward.of(one, one, reward.Weights())
    assert {p.name: p.by for p in value.parts} == {
        "time": "measured", "memory": "measured", "compute": "predicted", "occupancy": "measured",
    }  # fmt: skip


def play(answer, **options):
    """A session on a device that measures. `answer(trial)`: the profiler's reply."""
    player = Player()
    handlers = {
        "ask": lambda ask, turn: Reply(player.reply(ask.prompt)), "profile": lambda verb, turn: answer(verb.trial)
    }  # fmt: skip
    searching = Searching(OptiML(OptimlOptions(**options)), handlers=handlers, trials=4)
    searching.problem.device_kind = "measured"
    log = searching.run()
    return log, [e.facts for e in of(log, events.Shown) if e.topic == "node"], searching


def profiled(trial):
    return Reply(f"Trial {trial}: by Nsight Compute", counts={"memory": 1e6 * trial, "occupancy": 0.1 * trial})


def test_each_right_trial_is_profiled_once_and_rewarded_by_what_was_measured():
    log, nodes, searching = play(profiled)
    assert [e.counts for e in of(log, events.Answered) if e.verb == "profile"] == [
        profiled(t).counts for t in (1, 2, 3, 4)
    ]
    for n in nodes:
        assert n["counted"]["memory"] == 1e6 * n["trial"] and n["uncounted"] == "" and n["figures"]["memory"] > 0
        memory = next(p for p in n["parts"] if p["name"] == "memory")
        assert (memory["before"], memory["after"], memory["by"]) == (1e6, 1e6 * n["trial"], "measured")
    judge = next(searching.blobs[e.prompt] for e in of(log, events.Asked) if e.role == "judge")
    assert "- memory: 1 MB, measured by Nsight Compute" in judge and "- compute: " in judge
    assert "predicted by the model of the GPU" in judge and "instructions: not known" in judge


def test_a_profiler_that_cannot_count_leaves_the_predicted_figures_and_the_node_says_why():
    for answer, options, why in (
        (lambda t: Reply(refusal="no_profiler", reason="closed"), {}, figures.NOT_COUNTED),
        (profiled, {"profile": False}, figures.NO_PROFILE),
    ):
        _, nodes, _ = play(answer, **options)
        assert {n["uncounted"] for n in nodes} == {why} and not any(n["counted"] for n in nodes)
        assert {p["by"] for n in nodes for p in n["parts"] if p["name"] == "memory"} == {"predicted"}


def test_a_trial_that_is_not_counted_beside_a_root_that_is_keeps_to_predicted_figures():
    _, (root, *edits), _ = play(lambda t: profiled(t) if t == 1 else Reply(refusal="timeout", reason="late"))
    assert root["counted"] and not any(n["counted"] for n in edits)
    for n in edits:
        memory = next(p for p in n["parts"] if p["name"] == "memory")
        assert memory["by"] == "predicted" and memory["before"] == root["figures"]["memory"]


def test_a_modelled_device_is_asked_for_no_further_profile_and_says_that_nothing_ran():
    player = Player()
    searching = Searching(
        OptiML(), handlers={"ask": lambda ask, turn: Reply(player.reply(ask.prompt))}, trials=3
    )  # fmt: skip
    nodes = [e.facts for e in of(searching.run(), events.Shown) if e.topic == "node"]
    assert {n["uncounted"] for n in nodes} == {figures.NOT_RUN}
