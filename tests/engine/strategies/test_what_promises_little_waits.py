"""A structure that the model expects to take far longer than the first one waits for the rest of the plan."""

import pytest

from dsl.printer import to_text
from engine.strategies.api import Finished, State
from engine.strategies.planner.search.search_lines import DEAR, LATE
from tests.engine.strategies.test_planner import along_n, layers, planner


@pytest.fixture
def strategy():
    """Its line has structures that build in seconds."""
    return planner(layers(), ("tf32",), "measured")


def second_takes(line, times):
    line.structures[1].ms = times * line.structures[0].ms
    return line.structures[1]


def places(steps, structure):
    return [i for i, step in enumerate(steps) if step.structure is structure]


def test_it_comes_after_the_seeds(strategy):
    (line,) = strategy.all
    other = second_takes(line, 1.01 * LATE)
    plan = line.plan()
    assert places(plan, other) == [len(plan) - 1] and plan[-1].late and len(plan) > 3


def test_one_that_may_be_as_fast_comes_second(strategy):
    (line,) = strategy.all
    other = second_takes(line, 0.99 * LATE)
    assert places(line.plan(), other) == [1]


def test_less_is_enough_where_nvcc_builds_it():
    (line,) = planner(along_n(), ("tf32",), "measured").all
    slow = next(s for s in line.structures if s.backend == "cpp")
    quick = next(s for s in line.structures if s.backend == "cute")
    line.structures = [quick, slow]
    slow.ms = 1.01 * DEAR * quick.ms
    assert line.plan()[-1].structure is slow
    slow.ms = 0.99 * DEAR * quick.ms
    assert line.plan()[1].structure is slow


def test_nothing_waits_while_no_result_is_right(strategy):
    (line,) = strategy.all
    other = second_takes(line, 2 * LATE)
    first = strategy.next(State((), 8))
    wrong = Finished(1, first.text, first.cls, first.backend, failed="validate", code="wrong_result")
    assert strategy.next(State((wrong,), 8)).text == to_text(other.first)


def test_the_best_quick_time_comes_before_another_structure(strategy):
    (line,) = strategy.all
    other = second_takes(line, 1.0)
    times = {line.text(step): 2.0 - i / 100 for i, step in enumerate(line.seeds(2))}
    plan = line.plan(times)
    assert line.text(plan[1]) == min(times, key=times.get) and places(plan, other) == [2]


def test_it_is_built_ahead_last(strategy):
    (line,) = strategy.all
    other = second_takes(line, 2 * LATE)
    assert strategy.upcoming(State((), 8))[-1].text == to_text(other.first)
