"""Raw kernels that an owner pastes on a session's page, on a real GPU: daphne, the engine and the WebSocket there.

Each text goes to the server as the page sends it. With OUT set, the session lies in OUT/pasted_kernels.jsonl as a
recording, which the gallery can show.
"""

import contextlib
import json
import os
import re
from pathlib import Path

import pytest

from engine.session import events, recording
from tests.engine.integrity import zoo
from tests.gpu.conftest import serving
from tests.gpu.kernels_in_sessions import LIBRARY
from tests.gpu.test_app import follow
from tests.playground.conftest import House

pytestmark = pytest.mark.gpu
TITLE = "A gate: two kernels by hand, two that cheat, and one by a library"
EXPECTED = [  # (text, class, how its trial ends)
    ("cuda_honest/gate.cu", "f32", "clean"),
    ("cuda_honest/gate_cute.py", "tf32", "clean"),
    ("cuda_cheats/gate_no_op.cu", "f32", "gaming"),
    ("cuda_cheats/gate_side_stream.cu", "f32", "gaming"),
    ("library", "f32", "library only"),
]


def text_of(name):
    if name == "library":
        return LIBRARY
    (animal,) = [a for a in zoo.animals(name.partition("/")[0]) if a.path.name == name.partition("/")[2]]
    return "".join(line for line in animal.text.splitlines(keepends=True) if not re.match(r"(//|#) \w+: ", line))


@pytest.fixture(scope="module")
def app(cuda, tmp_path_factory):
    with serving(House(tmp_path_factory.mktemp("pasted"))) as house:
        yield house


def test_honest_kernels_are_timed_and_tricks_are_named(app):
    module = zoo.module("gate").replace("48, 130", "4096, 8192")
    session = app.submit(TITLE, source=module, source_kind="module", device="cuda", classes=["tf32"], trials=1)
    for name, cls, _ in EXPECTED:
        data = {"program": text_of(name), "cls": cls}  # the form and the language are seen by the text
        word = {"kind": "try", "data": data, "control_token": session["control_token"]}
        answer = app.post(f"/api/sessions/{session['id']}/commands", word)
        assert answer.get("kind") == "try", (name, answer)
    log = follow(app, session["id"])
    record(app, session["id"], log)
    own = [e["data"]["trial"] for e in log if e["kind"] == "trial.proposed" and e["data"]["by"] == "owner"]
    ends = {
        e["data"]["trial"]: e["data"] for e in log if e["kind"] in ("trial.judged", "trial.untimed", "trial.failed")
    }
    seen = {name: ends[n].get("verdict", ends[n].get("reason")) for (name, _, _), n in zip(EXPECTED, own, strict=True)}
    assert seen == {name: verdict for name, _, verdict in EXPECTED}
    best = {ends[n]["trial"] for n in log[-1]["data"]["best"].values()}
    honest = [n for (_, _, verdict), n in zip(EXPECTED, own, strict=True) if verdict == "clean"]
    assert best and not best & (set(own) - set(honest))


def record(app, session_id, log):
    if not os.environ.get("OUT"):
        return
    named = {word for e in log for word in json.dumps(e["data"]).split('"') if len(word) == 64 and word.isalnum()}
    blobs = {}
    for name in named:
        with contextlib.suppress(OSError):  # a digest names no text
            blobs[name] = app.text(f"/api/sessions/{session_id}/blobs/{name}")
    rows = [(e["seq"], e["t"], events.decode(e["kind"], e["data"])) for e in log]
    recording.write(Path(os.environ["OUT"]) / "pasted_kernels.jsonl", rows, blobs)
