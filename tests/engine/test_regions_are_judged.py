"""What is said of a region's trial: the whole module beside the whole module, the region beside PyTorch's region."""

import pytest

from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.planner.regions.partition import partition
from sol.attainable import predict_eager
from sol.hardware import load
from tests.engine.priced import Priced
from tests.engine.strategies.test_regions import experts

H200 = load("h200")


@pytest.fixture(scope="module")
def log():
    graph = experts()
    text = graph.to_json()
    history = [
        (1, events.SessionStarted("t", events.blob_name("module"), "module", {}, "planner", ["tf32"], {}, 0)),
        (2, events.Traced(events.blob_name(text), len(graph.ops), 0.1)),
    ]
    spec = SessionSpec(source="module", device="modelled:h200", classes=("tf32",), trials=3, eps=0.0)
    blobs = {events.blob_name(text): text}
    emissions = run(spec, device=Evaluator(Priced("h200")), history=history, read_blob=blobs.__getitem__)
    return [e.event for e in emissions]


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


def test_a_trials_time_and_ratio_are_the_modules_and_its_part_has_pytorchs_time_of_the_region(log):
    regions = {r.number: r.graph for r in partition(experts()).regions}
    measured = of(log, events.TrialMeasured)
    assert len(measured) == 3
    for e in measured:
        theirs = predict_eager(regions[e.part["region"]], H200, "tf32", autocast=True).ms
        assert e.part["region_eager_ms"] == pytest.approx(theirs) and theirs < e.baseline_ms
        assert e.part["region_ms"] < e.time.ms


def test_the_verdict_names_which_time_is_of_the_whole_module(log):
    for e, m in zip(of(log, events.TrialJudged), of(log, events.TrialMeasured), strict=True):
        assert e.text.startswith(f"{m.time.ms:.3g} ms predicted for the whole module, ")
        factor = m.part["region_eager_ms"] / m.part["region_ms"]
        word = f"{factor:.2f}x faster" if factor >= 1 else f"{1 / factor:.2f}x slower"
        alone = f"region {m.part['region']} alone {m.part['region_ms']:.3g} ms, {word} than PyTorch's own"
        assert alone in e.text and f"{m.part['region_eager_ms']:.3g} ms for it" in e.text
