"""Networks with in-place activations are planned and judged like those without: torchvision's are written that way."""

import pytest

from engine import sandbox
from engine.devices.modelled import Modelled
from engine.evaluate.evaluator import Evaluator
from engine.sandbox import Sandbox
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.networks_in_place import ALL
from tests.engine.priced import NotRun

STAYS = {"resnet": [], "densenet": ["cat", "cat"], "mobilenet": []}  # what PyTorch computes beside the programs


@pytest.fixture(scope="module", autouse=True)
def pool():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    yield
    sandbox.drain()


class Unbuilt(Modelled):
    """The modelled machine without its compilers, which take most of its time; numbers are verified in full."""

    def open(self, problem, cancelled, loaded=None):
        workbench = super().open(problem, cancelled, loaded)
        workbench.programs.builds = NotRun()
        return workbench


@pytest.mark.parametrize("name", ALL)
def test_it_is_traced_planned_verified_and_judged(name):
    spec = SessionSpec(title=name, source=ALL[name], device="modelled:h200", classes=("tf32",), trials=1, eps=0.0)
    log = [e.event for e in run(spec, device=Evaluator(Unbuilt("h200")), teaches=False)]
    uncovered = [u["op"] for e in log if isinstance(e, events.Covered) for u in e.uncovered]
    assert uncovered == STAYS[name]
    (validated,) = (e for e in log if isinstance(e, events.TrialValidated))
    assert validated.error <= validated.tolerance and "the module in float64" in validated.scope
    (judged,) = (e for e in log if isinstance(e, events.TrialJudged))
    assert judged.verdict == "clean"
    assert log[-1].state == "done"
