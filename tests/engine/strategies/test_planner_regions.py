"""Of a module that is not one program every region has its own search, told apart by the programs' names alone."""

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from engine.devices import Problem, TrialError
from engine.strategies.api import Finished, State
from engine.strategies.planner.search.refining import Refiner
from sol.attainable import predict
from sol.hardware import load
from tests.engine.graphs import linear
from tests.engine.planning import planned
from tests.engine.strategies.test_regions import experts

H200 = load("h200")


@pytest.fixture(scope="module")
def planner():
    return planned(Problem("", "module", experts()), ("tf32",), H200, "predicted")


def test_regions_and_the_rest_are_told(planner):
    router, both = planner.problem.regions
    assert router.outputs == ("softmax_1",) and router.lines == (1, 2) and len(planner.problem.uncovered) == 2
    assert all(r.limits["tf32"] > 0 for r in planner.problem.regions)
    assert router.share["flops"] + both.share["flops"] == pytest.approx(1)  # slices compute nothing
    assert planner.problem.notes == []  # the covered event has its own sentence
    (reason,) = {u["why"] for u in planner.problem.covered.uncovered}
    assert reason == "is read by `aten.mul`, whose stage reads no slice in place"
    assert planner.problem.covered.text.endswith("2 operations stay PyTorch: slice (lines 6 and 11)")


def test_a_module_that_is_one_program_has_nothing_to_tell():
    strategy = planned(Problem("", "module", linear()), ("tf32",), H200, "predicted")
    assert strategy.problem.covered is None and strategy.problem.notes == []
    assert strategy.problem.region(strategy.next(State()).text) == 0


def search(planner, n, **of):
    trials = []
    for number in range(1, n + 1):
        p = planner.next(State(tuple(trials)))
        region = planner.problem.region(p.text)
        trials.append(
            Finished(number, p.text, p.cls, p.backend, ms=p.predicted_ms, region=region, region_ms=1.0, speedup=2.0)
        )
    return trials


def test_every_region_is_tried_the_one_with_most_to_save_first(planner):
    assert [t.region for t in search(planner, 2)] == [2, 1]


def test_the_time_predicted_is_the_whole_modules(planner):
    alone = planner.next(State())
    standing = Finished(1, alone.text, "tf32", alone.backend, ms=1.0, region=2, region_ms=0.5, speedup=1.5)
    beside = planner.next(State((standing,)))
    assert planner.problem.region(beside.text) == 1 and beside.predicted_ms != alone.predicted_ms
    assert alone.change.startswith("region 2: ") and beside.change.startswith("region 1: ")


def test_a_program_is_bound_to_its_own_regions_tensors(planner):
    text = planner.next(State()).text
    inputs, outputs = planner.problem.bind(text)
    assert {b.tensor for b in inputs} == set(planner.problem.regions[1].inputs)
    assert [b.tensor for b in outputs] == list(planner.problem.regions[1].outputs)
    assert planner.problem.ops(planner.problem.region(text)) == planner.problem.regions[1].ops


def test_a_renamed_program_is_known_by_what_it_takes(planner):
    text = planner.next(State()).text
    name = check(text).program.name
    assert planner.problem.region(text.replace(f"program {name}(", "program mine(")) == 2


def test_a_program_that_fits_no_region_is_told_a_signature(planner):
    other = "program p(x: f16[8, 64], w: f16[64, 64]) -> f16[8, 64] {\n  y = gemm(x, w)\n  return y\n}\n"
    with pytest.raises(TrialError, match="must take what region"):
        planner.problem.bind(other)


def finished(number, region, speedup, **changes):
    fields = {"ms": 1 / speedup, "region": region, "region_ms": 0.1 * number, "speedup": speedup} | changes
    return Finished(number, f"text {number}", "tf32", "cpp", **fields)


def test_a_program_stands_where_the_module_became_faster_with_it():
    trials = (
        finished(1, 1, 1.2),
        finished(2, 2, 1.1),
        finished(3, 2, 1.5),
        finished(4, 1, 1.4),
        finished(5, 1, 9, clean=False),
    )
    assert {r: t.number for r, t in State(trials).standing("tf32").items()} == {1: 1, 2: 3}


def test_a_first_program_that_slows_the_module_down_does_not_stand():
    assert State((finished(1, 1, 0.5),)).standing("tf32") == {}


def test_a_regions_best_is_by_its_own_time_and_the_classs_by_the_modules():
    trials = (finished(1, 1, 1.2), finished(2, 1, 1.1, region_ms=0.05))
    assert State(trials).best("tf32", 1).number == 2 and State(trials).best("tf32").number == 1


def test_a_program_of_a_region_is_refined_as_that_region_with_the_whole_modules_time(planner):
    """Each region's best is refined with one clause changed, before the rest of a ranking."""
    refiner, trials = Refiner(planner.problem), search(planner, 2)
    first = min(trials, key=lambda t: t.ms)
    regions = []
    for number in range(3, 40):
        verb = refiner.next(State(tuple(trials), 60))
        region = planner.problem.region(verb.text)
        assert verb.change.startswith(f"region {region}: ") and check(verb.text).ok
        assert trials[verb.parent - 1].region == region and verb.text not in {t.text for t in trials}
        regions.append((region, "one clause changed" in verb.why))
        trials.append(Finished(number, verb.text, verb.cls, verb.backend, ms=9.0, region=region, region_ms=9.0))
    assert regions[0] == (first.region, True)
    assert {region for region, near in regions if near} == {1, 2}
    assert [near for _, near in regions] == sorted((near for _, near in regions), reverse=True)
    standing = Finished(1, trials[0].text, "tf32", trials[0].backend, ms=1.0, region=2, region_ms=0.5, speedup=1.5)
    verb = refiner.next(State((standing,)))
    own = predict(resolve(check(verb.text).program, H200.sms), H200).ms
    assert verb.predicted_ms > own, "the other region and the rest are PyTorch's"


def test_two_programs_may_be_worth_it_together_where_each_alone_is_not():
    """Casts between a program and PyTorch's rest cost more than each saves; without the seam both are faster."""
    first, second = finished(1, 1, 0.9, gain=1.8), finished(2, 2, 0.88, gain=1.9)
    assert State((first,)).standing("tf32") == {1: first}, "it runs along with the other region's first program"
    together = finished(3, 2, 1.3, gain=1.9, beside=(1,))
    assert {r: t.number for r, t in State((first, second, together)).standing("tf32").items()} == {1: 1, 2: 3}


def test_a_program_that_helps_no_other_is_left_out_again():
    first, with_it = finished(1, 1, 0.9, gain=1.8), finished(2, 2, 0.7, gain=0.8, beside=(1,))
    assert State((first, with_it)).standing("tf32") == {}
    newer = finished(3, 1, 0.95, gain=2.0)
    assert State((first, with_it, newer)).standing("tf32") == {1: newer}


def test_a_region_that_is_slower_than_pytorch_s_runs_beside_nothing():
    assert State((finished(1, 1, 0.9, gain=0.99),)).standing("tf32") == {}
