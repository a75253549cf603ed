"""Which levers a program tries, and what came of the report's promises."""

from dataclasses import replace

import pytest
from suite59 import gemm_problem

from dsl.check.program import check as checked
from sol.hardware import load
from sol.lever_check import Timed, check, outcomes, tried
from sol.levers import Lever, levers

H200 = load("h200")
SIG = "x: f16[1024, 4096], w: f16[1024, 4096]"


def actions(body):
    bias = ", b: f16[1024]" if "b[n]" in body else ""
    result = checked(f"program p({SIG}{bias}) -> f16[1024, 1024] {{\n{body}\n  return y\n}}")
    assert result.ok, result.diagnostics
    return tried(result.program)


@pytest.mark.parametrize(
    ("body", "has", "lacks"),
    [
        ("  y = gemm(x, w.T)", {"lower_class", "drop_copy"}, {"fuse_tail", "split_k"}),
        ("  y = gemm(x, w.T) { epilogue gelu(acc + b[n]) }", {"fuse_tail"}, {"fuse_pointwise"}),
        ("  y = gemm(x, w.T) { tile 128x128x64 schedule cooperative scheduler split_k(4) }", {"split_k"}, {"stream_k"}),
        ("  y = gemm(x, w.T) { scheduler stream_k }", {"stream_k"}, {"split_k"}),
        ("  h = gemm(x, w.T)\n  y = map(h) { epilogue relu(acc + b[n]) }", {"fuse_pointwise"}, {"fuse_tail"}),
        ("  h = gemm(x, w.T)\n  y = map(h) { epilogue relu(acc) }", set(), {"fuse_pointwise", "fuse_tail"}),
        ("  h = gemm(x, w.T)\n  y = map(h) { epilogue relu(acc) * 2 }", {"drop_copy"}, {"fuse_tail"}),
        ("  h = gemm(x, w.T) { epilogue acc + b[n] }\n  y = map(h) { epilogue tanh(acc) }", set(), {"fuse_tail"}),
        ("  h = gemm(x, w.T)\n  y = transform(h) { permute 1x0 }", {"lower_class"}, {"drop_copy"}),
        ("  v = transform(w) { permute 1x0 }\n  y = gemm(x, v)", {"lower_class"}, {"drop_copy"}),
    ],
)
def test_a_program_shows_what_it_tries(body, has, lacks):
    names = actions(body)
    assert has <= names and not lacks & names


SPLIT = Lever("split_k", "Split K in y", "", 1.0, 3.0, "tf32", "y")
FUSE = Lever("fuse_tail", "Fuse relu", "", 0.1, 1.2, "tf32", "y")
LOWER = Lever("lower_class", "Use the f16 class", "", 0.1, 1.8, "tf32")


def test_a_gain_is_observed_against_the_best_trial_without_it():
    trials = [
        Timed(1, "tf32", frozenset({"fuse_tail"}), 0.9),
        Timed(2, "tf32", frozenset({"fuse_tail", "split_k"}), 0.3),
    ]
    split, fuse, lower = check([SPLIT, FUSE, LOWER], trials, {"tf32": 0.6})
    assert split.observed == pytest.approx(3.0) and split.trial == 2 and "trial 1" in split.against
    assert fuse.observed == pytest.approx(2.0) and fuse.against == "PyTorch in tf32"  # no trial is without it
    assert lower.observed is None and lower.against == "not tried"


def test_a_lower_class_is_found_in_the_class_it_names():
    trials = [Timed(3, "f16", frozenset({"lower_class"}), 0.25)]
    (lower,) = check([LOWER], trials, {"tf32": 0.5, "f16": 0.3})
    assert (lower.observed, lower.trial) == (2.0, 3)


def test_a_lever_of_a_class_that_nobody_tried_is_looked_for_where_somebody_did():
    trials = [Timed(1, "f16", frozenset({"fuse_tail"}), 0.25)]
    (fuse,) = check([FUSE], trials, {"tf32": 0.6, "f16": 0.3})
    assert (fuse.cls, fuse.against) == ("f16", "PyTorch in f16") and fuse.observed == pytest.approx(1.2)


def test_only_what_was_tried_is_remembered():
    trials = [Timed(1, "tf32", frozenset({"fuse_tail"}), 0.5)]
    (outcome,) = outcomes(check([SPLIT, FUSE], trials, {"tf32": 0.6}), "a problem")
    assert (outcome.action, outcome.predicted, outcome.problem) == ("fuse_tail", 1.2, "a problem")
    assert outcome.observed == pytest.approx(1.2)


def test_the_levers_of_a_report_can_be_checked():
    ranking = levers(gemm_problem("L2/12"), H200, "tf32")
    assert {c.action for c in check(ranking, [], {})} == {lever.action for lever in ranking}


def test_a_tile_that_fills_the_last_wave_is_the_other_way_that_stream_k_names():
    text = (
        "program p(x: f16[1536, 4096], w: f16[1536, 4096]) -> f16[1536, 1536] {{\n"
        "  y = gemm(x, w.T) {{ {} }}\n  return y\n}}"
    )
    wide, plain = (
        checked(text.format(f"tile {tile} cluster 1x1x1 schedule cooperative scheduler persistent")).program
        for tile in ("128x192x64", "128x128x64")  # 96 tiles in one wave of 132; 144 tiles in two
    )
    assert "stream_k" in tried(wide) and "stream_k" not in tried(plain)


def test_the_class_that_a_lever_goes_to_is_a_field_and_its_title_is_for_people():
    titled = replace(LOWER, title="Halve the operands", target="f16")
    (result,) = check([titled], [Timed(1, "f16", frozenset({"lower_class"}), 0.5)], {"tf32": 1.0})
    assert (result.trial, result.observed) == (1, 2.0)
    (unknown,) = check([replace(titled, target="")], [Timed(1, "f16", frozenset({"lower_class"}), 0.5)], {"tf32": 1.0})
    assert unknown.trial is None


def test_an_older_report_names_the_class_in_its_title_alone():
    (result,) = check([LOWER], [Timed(1, "f16", frozenset({"lower_class"}), 0.5)], {"tf32": 1.0})
    assert LOWER.target == "" and result.trial == 1
