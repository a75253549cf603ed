"""What the command line says of a module that is no single program."""

from engine.devices import Problem
from engine.progress import line
from engine.session import events
from sol.hardware import load
from tests.engine.planning import planned
from tests.engine.strategies.test_regions import experts


def test_regions_and_what_stays_pytorch_are_lines():
    covered = planned(Problem("", "module", experts()), ("tf32",), load("h200"), "predicted").problem.covered
    rows = line(covered).splitlines()
    assert rows[0] == covered.text and "stay PyTorch: slice (lines 6 and 11)" in rows[0]
    assert rows[1].startswith("  region 1: linear, softmax, lines 1, 2; ") and "limit tf32 " in rows[1]
    assert rows[3] == "  PyTorch: `aten.slice` (line 6) is read by `aten.mul`, whose stage reads no slice in place"


def test_a_regions_own_time_stands_beside_the_modules():
    part = {"region": 2, "region_ms": 0.25, "programs": 2, "covered_ms": 0.3}
    measured = events.TrialMeasured(1, events.Prediction(0.5, "m", "h200"), "eager_tf32", 1.0, 2.0, part=part)
    assert line(measured) == "    region 2 alone ~0.25 ms; 2 programs together ~0.3 ms"  # an older log
    part["region_eager_ms"] = 0.4
    expected = "    region 2 alone ~0.25 ms, PyTorch's own ~0.4 ms (1.60x); 2 programs together ~0.3 ms"
    assert line(measured) == expected
    part["graph"] = True
    assert line(measured) == f"{expected}; the whole module as one CUDA graph"
    assert line(events.TrialMeasured(1, events.Prediction(0.5, "m", "h200"), "eager_tf32", 1.0, 2.0)) is None


def test_screening_is_told_without_a_time():
    assert (
        line(events.Screened(2, {"a": 0.5, "b": None}, 3.0))
        == "chose among 1 candidate by a few calls of each in 3.0 s"
    )
