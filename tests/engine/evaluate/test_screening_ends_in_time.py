"""A search whose time is over builds nothing more to choose among: none of it could be tried."""

import pytest

from engine.evaluate.evaluator import Evaluator
from tests.engine.priced import Priced


def test_nothing_is_built_to_be_screened_once_the_time_is_over():
    evaluator, over = Evaluator(Priced("h200")), [False]
    evaluator.out_of_time = lambda: over[0]
    with pytest.raises(AttributeError):  # it has no problem open, so it cannot build: it tried
        evaluator.await_build(object())
    over[0] = True
    assert evaluator.await_build(object()) is False
