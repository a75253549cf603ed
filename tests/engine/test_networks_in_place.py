"""Networks with in-place activations are planned and judged like those without: torchvision's are written that way."""

import pytest

from engine.session import events
from tests.engine.networks_in_place import ALL
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

STAYS = {"resnet": [], "densenet": [], "mobilenet": []}  # what PyTorch computes beside the programs


@pytest.mark.parametrize("name", ALL)
def test_it_is_traced_planned_verified_and_judged(name):
    log = session(ALL[name], name)
    uncovered = [u["op"] for e in log if isinstance(e, events.Covered) for u in e.uncovered]
    assert uncovered == STAYS[name]
    assert_judged_clean(log)
