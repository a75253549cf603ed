"""A session says why it has no configuration for a group of shapes, and which command measures one."""

from engine.bench.studies.shape_groups import __main__ as study
from engine.strategies.two_stage import shapes
from engine.suite.shape_groups import GROUPS


def test_a_problem_with_a_group_names_its_shapes_and_the_command_of_the_study(monkeypatch):
    group = GROUPS["add_rms_norm"]
    facts = shapes.facts(group.module((48, 5120)), "measured")
    assert facts["group"] == "add_rms_norm" and facts["tuned"][0] == "16x4096" and facts["unseen"][0] == "48x5120"
    assert facts["command"].startswith(f"python -m {study.shape_groups.__name__} --only add_rms_norm --device cuda")
    assert shapes.facts(group.module(), "predicted")["command"].endswith("--device modelled:h200")


def test_another_module_says_that_it_has_no_group():
    facts = shapes.facts("import torch\n", "measured")
    assert facts["group"] == facts["command"] == "" and "none of the problems with a group" in facts["why"]
