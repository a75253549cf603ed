"""The whole thing without a browser: the real engine on the modelled device, through daphne, to a WebSocket."""

import time
import urllib.request

import pytest

from tests.playground.conftest import House
from tests.playground.websocket import WebSocket

MODULE = '''"""A small layer."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 256)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return [256]
'''


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = House(tmp_path_factory.mktemp("house"), UCUTLASS_LEASE_SECONDS="3", UCUTLASS_COMPILERS="")
    built.web()
    yield built
    built.close()


def engine(house):
    return house.start("manage.py", "engine", "--device", "modelled:h200", name=f"engine{len(house.processes)}")


def test_a_pasted_module_becomes_predicted_trials(house):
    """That a killed engine loses nothing of it, test_sessions_survive_kills holds."""
    session = house.submit("", source=MODULE, trials=5, classes=["f16"], eps=0.0, window=400)
    process = engine(house)
    with WebSocket(house.port, f"/ws/s/{session['id']}", timeout=240) as viewer:
        log = viewer.events()
    assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
    kinds = [e["kind"] for e in log]
    assert kinds.count("session.started") == kinds.count("session.ended") == 1
    end = log[-1]["data"]
    assert end["state"] == "done", end
    proposed = [e["data"]["trial"] for e in log if e["kind"] == "trial.proposed"]
    assert proposed == list(range(1, len(proposed) + 1)) and len(proposed) >= 3
    finished = [e["data"]["trial"] for e in log if e["kind"] in ("trial.judged", "trial.failed")]
    assert sorted(finished) == proposed, "each trial ended exactly once"
    assert {e["data"]["kind"] for e in log if e["kind"] == "trial.judged"} == {"predicted"}

    state = house.get(f"/api/sessions/{session['id']}")
    assert state["title"] == "linear 256x256, relu on 128 rows" and state["summary"]["best"]["kind"] == "predicted"
    figures = house.get(f"/api/figures/{session['id']}")
    assert all(
        figures[name]["figure"]["data"] and figures[name]["rows"] for name in ("roofline", "history", "breakdown")
    )
    sources = [e["data"]["sources"] for e in log if e["kind"] == "trial.generated"]
    assert any("cute" in s for s in sources)
    blob = next(iter(sources[0].values()))["text"]
    assert len(fetch(house, session["id"], blob)) > 500
    assert process.poll() is None
    with open(f"/proc/{process.pid}/maps") as maps:
        assert "libtorch" not in maps.read(), "torch belongs to the engine's workers, not to the process that writes"


@pytest.mark.parametrize(
    ("source", "kind", "word"),
    [
        ("def f(: pass", "module", "line 1"),
        ("x = 1", "module", "Model"),
        (MODULE.replace("[256]", "[128]"), "module", "128"),
        ("program p(x: f16[8, 8]) -> f16[8, 8] {", "program", "line 1"),
    ],
)
def test_what_cannot_be_worked_on_ends_with_one_clear_message_and_the_engine_goes_on(house, source, kind, word):
    if not house.get("/api/engines")["engines"]:
        engine(house)
    session = house.submit("bad", source=source, source_kind=kind)
    end = house.wait(session["id"], lambda s: s["state"] == "ended", 180)["summary"]["end"]
    assert end["state"] == "refused" and word.lower() in end["reason"].lower(), end


def fetch(house, session_id, name):
    deadline = time.monotonic() + 30
    path = f"/api/sessions/{session_id}/blobs/{name}"
    with urllib.request.urlopen(f"http://127.0.0.1:{house.port}{path}", timeout=30) as reply:
        assert "immutable" in reply.headers["Cache-Control"] and reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Type"].startswith("text/plain") and time.monotonic() < deadline
        return reply.read().decode()
