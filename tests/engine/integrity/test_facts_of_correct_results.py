"""What the judge says of a correct result alone is computed once for each draw of values."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.integrity.process.judge_main import Judge
from tests.engine.graphs import Builder

TOLERANCE, KEY = 1e-5, "normal:1:None:y"


@pytest.fixture
def judge():
    builder = Builder()
    one = Judge("cpu")
    one.graph = builder.graph(builder.op("relu", [builder.input("x", (4, 8))], (4, 8)))
    return one


def facts(judge, correct):
    answer = judge.compare(correct.clone(), correct, TOLERANCE, KEY)
    return answer["rms"], set(answer["trivial"])


def test_they_are_computed_once_for_all_results_on_the_same_values(judge, monkeypatch):
    computed, real = [], Judge._trivial
    monkeypatch.setattr(Judge, "_trivial", lambda *arguments: computed.append(1) or real(*arguments))
    x = torch.rand(4, 8)
    judge.take({"x": x})
    assert facts(judge, x) == facts(judge, x) and "its input x" in facts(judge, x)[1]
    assert len(computed) == 1


@pytest.mark.parametrize("again", ["take", "fresh"])
def test_other_values_have_others_even_under_the_same_key(judge, again):
    x = torch.rand(4, 8)
    judge.take({"x": x})
    facts(judge, x)
    if again == "take":
        judge.take({"x": -x})
    else:
        judge.values = {"x": -x}
        judge.fresh({})
    rms, trivial = facts(judge, torch.zeros(4, 8))
    assert rms == 0.0 and trivial == {"zeros", "a constant"}
