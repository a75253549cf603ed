"""The reward compares figures with a reference, and the guardrail lets no slower or wrong candidate be the best."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.strategies.optiml import figures, guardrail, reward
from engine.strategies.optiml.figures import NAMES, Figures
from engine.strategies.state import Finished
from sol.hardware import load

H200 = load("h200")
VALUES = st.fixed_dictionaries({}, optional={
    "time": st.floats(1e-4, 1e3), "memory": st.floats(1, 1e12), "compute": st.floats(1, 1e15),
    "occupancy": st.floats(0, 1),
})  # fmt: skip
FIGURES = st.builds(lambda values, region: Figures(values, {}, region), VALUES, st.integers(0, 1))
WEIGHTS = st.builds(
    reward.Weights, st.integers(1, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100),
    st.integers(2, 64),
)  # fmt: skip
START = Figures({"time": 1.0, "memory": 1e9, "compute": 1e12, "occupancy": 0.5})


def part(value, name):
    return next(p for p in value.parts if p.name == name)


@settings(max_examples=60, deadline=None)
@given(FIGURES, FIGURES, WEIGHTS, st.booleans())
def test_a_reward_is_from_0_to_1_and_its_parts_add_up_to_it(after, before, weights, slower):
    value = reward.of(after, before, weights, slower=slower)
    assert 0 <= value.value <= 1 and [p.name for p in value.parts] == list(NAMES)
    known = [p for p in value.parts if p.score is not None]
    shares = sum(p.weight for p in value.parts)
    assert math.isclose(shares, 1.0) if any(p.weight for p in known) else shares == 0
    assert all(p.missing and p.weight == 0 for p in value.parts if p.score is None)
    if not value.note:
        assert math.isclose(value.value, sum(p.weight * p.score for p in known), abs_tol=1e-9)
    time = part(value, "time").score
    if slower and time is not None:
        assert value.value <= time + 1e-9, "a regression gains nothing from the proxies"


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_faster_candidate_never_has_the_lower_reward(a, b):
    one, other = (Figures({**START.values, "time": t}) for t in sorted((a, b)))
    assert reward.of(one, START, reward.Weights()).value >= reward.of(other, START, reward.Weights()).value


def test_the_weight_of_a_missing_figure_goes_to_the_others_and_it_says_why():
    after = Figures({"time": 0.5, "memory": 5e8}, {"compute": "no model", "occupancy": "no registers"})
    value = reward.of(after, START, reward.Weights(60, 20, 10, 10, bound=4))
    assert [round(p.weight, 3) for p in value.parts] == [0.75, 0.25, 0, 0]
    assert value.value == pytest.approx(0.75) and part(value, "time").score == pytest.approx(0.75)
    assert [p.missing for p in value.parts] == ["", "", "no model", "no registers"]


def test_without_any_figure_a_right_candidate_counts_as_the_reference():
    value = reward.of(Figures({}, dict.fromkeys(NAMES, "unknown")), START, reward.Weights())
    assert value.value == 0.5 and "nothing" in value.note


def test_programs_of_two_regions_are_compared_by_the_time_of_the_module_alone():
    value = reward.of(Figures({**START.values, "time": 0.5}, {}, 2), START, reward.Weights())
    assert part(value, "time").weight == 1.0 and part(value, "memory").missing == reward.OTHER_REGION


# ---- figures ----


def test_the_figures_of_a_program_are_the_sums_of_its_stages():
    stages = ({"name": "a", "bytes": 100.0, "flops": 7.0}, {"name": "b", "bytes": 50.0, "flops": 0.0})
    own = figures.of(Finished(1, "p", "f16", ms=0.2, stages=stages), H200)
    assert dict(own.values) == {"time": 0.2, "memory": 150.0, "compute": 7.0}
    assert own.missing == {"occupancy": figures.NO_RESOURCES, "instructions": figures.NO_INSTRUCTIONS}


def test_a_raw_kernel_has_no_figures_but_those_of_the_compiler_and_the_clock():
    resources = ({"registers": 128, "threads": 256, "shared_bytes": 0, "instructions": 900},)
    own = figures.of(Finished(1, "k", "f32", ms=None, form="kernel", resources=resources), H200)
    assert dict(own.values) == {"occupancy": 0.25, "instructions": 900}
    assert own.missing == {"time": figures.NO_TIME, "memory": figures.NO_STAGES, "compute": figures.NO_STAGES}


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "share"),
    [(32, 256, 0, 1.0), (128, 256, 0, 0.25), (32, 128, 100_000, 2 * 128 / 2048), (168, 384, 227 * 1024, 384 / 2048)],
)
def test_registers_threads_or_shared_memory_limit_the_occupancy(registers, threads, shared, share):
    kernel = {"registers": registers, "threads": threads, "shared_bytes": shared}
    assert figures.occupancy([kernel, {"registers": 32, "threads": 256}], H200) == (pytest.approx(share), "")
    assert figures.occupancy([{"registers": 32}], H200) == (None, figures.NO_THREADS)


# ---- the guardrail ----

TRIALS = st.builds(
    Finished, st.just(0), st.just("p"), st.just("f16"), ms=st.none() | st.floats(1e-3, 1e3), clean=st.booleans(),
    failed=st.sampled_from(["", "", "", "check", "validate"]), untimed=st.booleans(),
    verdict=st.sampled_from(["clean", "minor", "gaming", "library only", ""]), reason=st.text(max_size=900),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(TRIALS, max_size=20), st.floats(0, 1))
def test_no_slower_and_no_wrong_candidate_becomes_the_best(trials, tolerance):
    best = None
    for trial in trials:
        ruling = guardrail.rule(trial, best, tolerance)
        assert ruling.reason and len(ruling.reason) <= guardrail.MOST_REASON
        if ruling.kind == guardrail.ACCEPTED:
            assert not trial.failed and trial.clean and trial.ms is not None
            assert best is None or trial.ms < best.ms
            best = trial
        elif trial.failed or (trial.ms is not None and not trial.clean):
            assert ruling.kind in guardrail.REJECTED and not ruling.right
        elif trial.ms is not None and trial.ms > best.ms * (1 + tolerance) * (1 + 1e-12):
            assert ruling.kind == guardrail.SLOWER


def test_each_ruling_says_its_reason():
    best = Finished(3, "p", "f16", ms=1.0)

    def kind(**more):
        ruling = guardrail.rule(Finished(5, "q", "f16", **more), best, 0.05)
        return ruling.kind, ruling.reason

    assert kind(ms=0.8) == ("accepted", "Trial 5 is 1.25 times as fast as the incumbent: 0.8 ms, trial 3 1 ms.")
    assert kind(ms=0.997)[1].startswith("Trial 5 is 1.003 times as fast") and "1.00001 times" in kind(ms=0.99999)[1]
    assert kind(ms=1.04)[0] == "within" and kind(ms=1.0)[0] == "within"
    assert kind(ms=1.2) == ("slower", "Trial 5 takes 1.2 times as long as the incumbent: 1.2 ms, trial 3 1 ms.")
    assert kind(ms=0.1, clean=False, verdict="gaming")[0] == "flagged"
    assert kind(failed="validate", reason="wrong by 5%") == ("wrong", "Trial 5 failed at validate: wrong by 5%")
    assert kind(untimed=True, clean=False, verdict="clean", reason="no model")[0] == "untimed"
    assert kind(untimed=True, clean=False, verdict="unverified")[0] == "flagged"
    unrun = kind(untimed=True, clean=False, verdict="unverified", code="needs_gpu", reason="there is no GPU here")
    assert unrun == ("flagged", "Trial 5 cannot be verified on this machine: there is no GPU here")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("time", 0.0337214, "0.03372 ms"),
        ("memory", 58_720_300, "58.72 MB"),
        ("memory", 512, "512 B"),
        ("compute", 8.58993e9, "8.59 GFLOP"),
        ("occupancy", 0.25, "0.25 share of the warps"),
        ("instructions", 3872.0, "3,872 instructions"),
    ],
)
def test_a_figure_is_said_with_a_unit_that_a_person_reads(name, value, words):
    assert figures.in_words(name, value) == words
