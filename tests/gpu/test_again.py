"""The best program of a session on the GPU, run again there as it is and at other sizes of its module."""

import re

import pytest

from tests.gpu.conftest import serving
from tests.gpu.test_app import follow, submit, whole
from tests.playground.conftest import House

pytestmark = pytest.mark.gpu
ROWS = re.compile(r"^ROWS = \d+$", re.M)
MODULE = """\
import torch
from torch import nn

ROWS = 4096


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 2048, dtype=torch.float16)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2


def get_inputs():
    return [torch.randn(ROWS, 1024, dtype=torch.float16)]
"""


@pytest.fixture(scope="module")
def app(cuda, tmp_path_factory):
    with serving(House(tmp_path_factory.mktemp("app"), UCUTLASS_COMPILERS="")) as house:
        yield house


@pytest.fixture(scope="module")
def original(app):
    """The id of a session that ended with a program faster than PyTorch."""
    session = submit(app, source=MODULE, classes=["f16"], trials=4)
    end = whole(follow(app, session))
    assert end["state"] == "done" and end["best"]
    return session


def test_it_is_run_again_beside_its_record(app, original):
    started = app.post(f"/api/sessions/{original}/again", {})
    log = follow(app, started["id"])
    end = whole(log)
    assert end["state"] == "done", end
    assert [e for e in log if e["kind"] == "trial.measured"]


@pytest.mark.parametrize("rows", [1000, 16384])
def test_it_is_timed_at_another_size(app, original, rows):
    source = ROWS.sub(f"ROWS = {rows}", MODULE)
    started = app.post(f"/api/sessions/{original}/again", {"source": source, "sizes": f"ROWS = {rows}"})
    log = follow(app, started["id"])
    assert whole(log)["state"] == "done"
    (measured,) = [e["data"] for e in log if e["kind"] == "trial.measured"]
    assert measured["time"]["kind"] == "measured" and measured["baseline_ms"] > 0
    (judged,) = [e["data"] for e in log if e["kind"] == "trial.judged"]
    assert judged["verdict"] == "clean", judged
