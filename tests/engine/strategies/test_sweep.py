"""A sweep takes the classes in turns, the fastest configurations first, and says what it cannot vary."""

from itertools import islice
from types import SimpleNamespace

import pytest

from engine.devices import Problem
from engine.strategies.api import Unsuitable
from engine.strategies.problem import prepare
from engine.strategies.sweep import Sweep, SweepOptions
from sol.hardware import load
from tests.engine.graphs import linear

H200 = load("h200")
RUNNING = SimpleNamespace(state=SimpleNamespace(stop=""))


def problem(classes=("tf32", "f16")):
    graph = linear([("relu", {})], rows=1024, k=2048, n=4096)
    return prepare(Problem("module", "module", graph, 0), classes, H200, device_kind="predicted")


def tries(classes=("tf32", "f16"), **options):
    """The trials that a sweep proposes, while none of them ends the session."""
    script = Sweep(SweepOptions(**options)).run(problem(classes))
    try:
        yield next(script)
        while True:
            yield script.send(RUNNING)
    except StopIteration:
        return


def test_a_small_budget_reaches_every_class():
    assert [t.candidate.cls for t in islice(tries(), 4)] == ["tf32", "f16", "tf32", "f16"]


def test_one_class_goes_on_when_the_other_has_no_configuration_left():
    classes = [t.candidate.cls for t in tries(limit=2)]
    assert sorted(classes) == ["f16", "f16", "tf32", "tf32"]


def test_the_first_configurations_differ_in_more_than_their_swizzle():
    first = [t.change.partition(", swizzle")[0] for t in islice(tries(("f16",)), 4)]
    assert len(set(first)) == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"region": 7}, "no region 7 in f16: it is one program; leave region out"),
        ({"stage": "zz"}, "no stage `zz` to vary; write one of: y"),
        ({"structure": 8}, "give structure a number up to that"),
    ],
)
def test_what_cannot_be_varied_is_said_with_the_way_out(options, says):
    with pytest.raises(Unsuitable, match=says):
        next(tries(("f16",), **options))
