"""Every hostile or broken text ends in one clear refusal, and leaves nothing behind: no process, no file.

Each file in hostile/ says what it expects in its first two lines (`# expect: CODE`, `# says: FRAGMENT`) and marks
the lines that the refusal may name with `# HERE`. They run for real, in bubblewrap. Those with a third line
`# in: a copy` run in copies of one child, with less memory; `# alone: CODE` says how they end in a child of their own,
with a session's 8 GiB and no process of ours above them (tests.engine.trace.refusals).
"""

import os
import re
import time
from pathlib import Path

import pytest

from engine import sandbox
from engine.devices import SessionRefused
from engine.sandbox import Sandbox, SandboxEnded, tree
from engine.trace import parent, trace, warm

FILES = sorted((Path(__file__).parent / "hostile").glob("*.py"))
GOOD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
inputs = [torch.randn(4, 8)]
"""


# Texts that are only wrong go to one child, one after the other: torch takes 2 s to load. (The engine never does that.)
ONLY_WRONG = {
    "syntax_error", "no_model", "several_models", "no_inputs", "bad_inputs", "init_inputs", "module_raised",
    "missing_package", "asks_for_cuda", "shape_mismatch", "data_dependent", "not_a_tensor", "nothing_computed",
    "not_covered",
}  # fmt: skip
PARENT = ("torch", "torch._dynamo", "engine.trace.child")  # each copy would load torch._dynamo again
MEMORY = 3 << 29  # 1.5 GiB: filling it takes a second
# A fork's sandbox ends when the text has killed the program that holds it: a race. Without torch, bubblewrap starts it.
UNFORKED = {"kills_everyone": ("engine.trace.child",)}
COPY = "# in: a copy"  # of one child, as the candidates of one person: it need not load torch


@pytest.fixture(scope="module", autouse=True)
def pool():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("UCUTLASS_TEST_SECRET", "sk-secret")
    with sandbox.take(preload=parent.PRELOAD):  # the fork server stays, and is none of what a text leaves behind
        pass
    yield
    monkeypatch.undo()
    sandbox.drain()


@pytest.fixture(scope="module")
def shared():
    with Sandbox(preload=("torch", "engine.trace.child")).start() as box:
        yield box


@pytest.fixture(scope="module")
def parents():
    """A list of the one child that makes copies; empty after a text that ended it."""
    boxes = []
    yield boxes
    for box in boxes:
        box.close()


def in_copy(parents: list[Sandbox], text: str, timeout: float) -> None:
    """Trace a text in a copy of a child. Raises SessionRefused."""
    (box,) = parents
    try:
        box.fork()
        try:
            parent._read(box.request({"entry": "engine.trace.child", "source": text}, timeout=timeout), 0.0)
        finally:
            if box.alive:
                box.reap()
    except SandboxEnded as e:
        box.close()
        parents.clear()
        raise parent.refuse(e) from None


def ours() -> list[int]:
    """Processes under this one, zombies aside, but for the warm child that waits for the next text."""
    boxes = [box for group in sandbox.pool._waiting.values() for box in group]
    for box in boxes:
        box.wait_ready()  # until then the fork server's copy is not known to be its own
    below = tree.descendants(os.getpid())
    waiting = {p for box in boxes for p in tree.descendants(box._process.pid)}
    waiting |= {tree._adopted[box._process.pid][1] for box in boxes if box._process.pid in tree._adopted}
    return [p for p in below if p != os.getpid() and p not in waiting and tree.exists(p)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_hostile_text_is_refused(path, shared, parents, monkeypatch):
    text = path.read_text()
    code = re.search(r"# expect: (.+)", text)[1]
    says = re.search(r"# says: (.*)", text)[1]
    lines = [n for n, row in enumerate(text.splitlines(), 1) if "# HERE" in row]
    lines += [None] * ("or no line" in text)
    if COPY in text and not parents:
        parents.append(Sandbox(preload=PARENT, memory_bytes=MEMORY).start())
    before = set(ours())
    with pytest.raises(SessionRefused) as caught:
        if COPY in text:
            in_copy(parents, text, 2 if code == "time_limit" else 120)
        elif code in ONLY_WRONG and "ctypes" not in text:
            parent._read(shared.request({"entry": "engine.trace.child", "source": text}, timeout=60), 0.0)
        else:
            with monkeypatch.context() as patch:
                patch.setattr(parent, "PRELOAD", UNFORKED.get(path.stem, parent.PRELOAD))
                trace(text, timeout=4 if code == "time_limit" else 120, memory_bytes=MEMORY)
    if code not in ONLY_WRONG | {"time_limit"} and COPY not in text:
        warm()  # the next child
    refused = caught.value
    assert refused.code == code, refused.reason
    assert says in refused.reason
    assert len(refused.reason) < 600
    assert refused.reason.isprintable()
    if lines:
        assert refused.line in lines, (refused.line, refused.reason)
    end = time.monotonic() + 60
    while (left := set(ours()) - before) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left
    for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", os.getcwd(), os.path.expanduser("~")):
        assert not os.path.exists(os.path.join(folder, "ucutlass-was-here"))


def test_there_are_two_hundred():
    assert len(FILES) >= 200


def test_a_good_module_is_traced_after_all_of_that():
    assert [op.op for op in trace(GOOD).graph.ops] == ["mul"]
