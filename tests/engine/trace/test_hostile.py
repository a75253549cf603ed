"""Every hostile or broken text ends in one clear refusal, and leaves nothing behind: no process, no file.

Each file in hostile/ says what it expects in its first two lines (`# expect: CODE`, `# says: FRAGMENT`) and marks
the lines that the refusal may name with `# HERE`. They run for real, in bubblewrap.
"""

import os
import re
import time
from pathlib import Path

import pytest

from engine import sandbox
from engine.devices import SessionRefused
from engine.sandbox import Sandbox, tree
from engine.trace import parent, trace, warm

FILES = sorted((Path(__file__).parent / "hostile").glob("*.py"))
GOOD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
inputs = [torch.randn(4, 8)]
"""


@pytest.fixture(scope="module", autouse=True)
def pool():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    monkeypatch = pytest.MonkeyPatch()
    # Most of these never get as far as an export: do not load it beforehand, 50 times.
    monkeypatch.setattr(parent, "PRELOAD", ("torch",))
    yield
    monkeypatch.undo()
    sandbox.drain()


def ours() -> list[int]:
    """Processes under this one, zombies aside, but for the warm child that waits for the next text."""
    waiting = {p for box in sandbox.pool._waiting.values() for p in tree.descendants(box._process.pid)}
    return [p for p in tree.descendants(os.getpid()) if p != os.getpid() and p not in waiting and tree.exists(p)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_hostile_text_is_refused(path):
    text = path.read_text()
    code = re.search(r"# expect: (.+)", text)[1]
    says = re.search(r"# says: (.*)", text)[1]
    lines = [n for n, row in enumerate(text.splitlines(), 1) if "# HERE" in row]
    before = set(ours())
    with pytest.raises(SessionRefused) as caught:
        trace(text, timeout=4 if code == "time_limit" else 30, memory_bytes=2 << 30)
    warm()  # the next child loads torch while we look at what this one left
    refused = caught.value
    assert refused.code == code, refused.reason
    assert says in refused.reason
    assert len(refused.reason) < 600
    assert refused.reason.count("\n") == 0
    if lines:
        assert refused.line in lines, (refused.line, refused.reason)
    time.sleep(0.05)
    assert set(ours()) <= before
    for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", os.getcwd(), os.path.expanduser("~")):
        assert not os.path.exists(os.path.join(folder, "ucutlass-was-here"))


def test_a_good_module_is_traced_after_all_of_that():
    assert [op.op for op in trace(GOOD).graph.ops] == ["mul"]
