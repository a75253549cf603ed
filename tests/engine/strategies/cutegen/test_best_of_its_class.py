"""A rung of the ladder names the best trial of the class of the kernel that evolves: times of other classes are not
comparable with it."""

from types import SimpleNamespace

from engine.strategies.cutegen.evolution import Evolution
from engine.strategies.state import Finished, State

FAST_F16 = Finished(1, "", "f16", ms=0.1)
SLOW, FASTER = Finished(2, "", "tf32", ms=0.3), Finished(3, "", "tf32", ms=0.2)
STATE = State((FAST_F16, SLOW, FASTER))


def rung(base, passing):
    writer = SimpleNamespace(state=STATE, best=lambda: FAST_F16)
    depth = SimpleNamespace(writer=writer, fixes=0, regenerations=0, _show=lambda topic, facts: iter([facts]))
    (facts,) = Evolution._ladder(depth, 0, base, passing, "passed", [], passing)
    return facts


def test_it_is_of_the_class_of_the_kernel_that_passed():
    assert rung(FAST_F16, SLOW)["best"] == 3 and rung(FASTER, FAST_F16)["best"] == 1


def test_it_is_of_the_class_of_the_kernel_to_start_from_before_that():
    assert rung(SLOW, None)["best"] == 3


def test_before_any_kernel_it_is_the_fastest_of_all():
    assert rung(None, None)["best"] == 1
