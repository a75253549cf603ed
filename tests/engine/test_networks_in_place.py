"""Networks with in-place activations are planned and judged like those without: torchvision's are written that way."""

import pytest

from engine import sandbox
from engine.sandbox import Sandbox
from engine.session import events
from tests.engine.networks_in_place import ALL
from tests.engine.unbuilt import session

STAYS = {"resnet": [], "densenet": ["cat", "cat"], "mobilenet": []}  # what PyTorch computes beside the programs


@pytest.fixture(scope="module", autouse=True)
def pool():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    yield
    sandbox.drain()


@pytest.mark.parametrize("name", ALL)
def test_it_is_traced_planned_verified_and_judged(name):
    log = session(ALL[name], name)
    uncovered = [u["op"] for e in log if isinstance(e, events.Covered) for u in e.uncovered]
    assert uncovered == STAYS[name]
    (validated,) = (e for e in log if isinstance(e, events.TrialValidated))
    assert validated.error <= validated.tolerance and "the module in float64" in validated.scope
    (judged,) = (e for e in log if isinstance(e, events.TrialJudged))
    assert judged.verdict == "clean"
    assert log[-1].state == "done"
