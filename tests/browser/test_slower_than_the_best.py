"""A kernel that evolves is called slower than the best only beside one of its precision class."""

import pytest

from tests.browser.test_empty_parts import NONE, WORKLOAD

SCRIPT = """async ([rungs, classes]) => {
  const { draw } = await import("/static/js/session/strategies/cutegen.js");
  const shown = rungs.map(([topic, facts]) => ({ topic, facts }));
  return draw(shown, () => {}, true, { classOf: (n) => classes[n] ?? "" }).textContent;
}"""
FIRST = NONE | {"depth": 0, "state": "passed", "trials": [1], "trial": 1, "ms": 0.02, "best": 1, "best_ms": 0.02}
SECOND = FIRST | {"depth": 1, "base": 1, "base_ms": 0.02, "trials": [2], "trial": 2, "ms": 0.03}
THIRD = FIRST | {"depth": 2, "base": 2, "base_ms": 0.03, "trials": [3], "trial": 3, "ms": 0.04}


@pytest.fixture
def drawn(checkout):
    rungs = [("workload", WORKLOAD), *(("depth", f) for f in (FIRST, SECOND, THIRD))]
    return lambda *classes: checkout.evaluate(SCRIPT, [rungs, ["", *classes]])


def test_a_kernel_of_the_class_of_the_best_is_compared_with_it(drawn):
    text = drawn("f16", "f16", "f16")
    assert text.count("slower than the best, trial 1 20.0 µs") == 1
    assert "Best so far in float16" in text and "takes 100% longer than the best" in text


def test_a_kernel_of_another_class_is_not(drawn):
    text = drawn("f16", "tf32", "tf32")
    assert "slower than the best" not in text and "longer than the best" not in text
    assert "The best so far is in float16, the evolving kernel in TF32." in text
