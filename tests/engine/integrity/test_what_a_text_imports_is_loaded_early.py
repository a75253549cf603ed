"""The process of a raw kernel loads the slow modules that its text imports before the text comes."""

import pytest

from engine import sandbox
from engine.evaluate.integrity.process import candidate
from engine.trace import PRELOAD


@pytest.mark.parametrize(
    "text, roots",
    [
        ("import torch\n", []),
        ("import cutlass.cute as cute\n", ["cutlass"]),
        ("def f():\n    from quack.gemm import g\n", ["cutlass", "quack"]),
        ("import triton\nimport triton.language as tl\n", ["triton"]),
        ("# import cutlass\nx = 'quack'\n", []),
    ],
)
def test_the_imports_of_a_text_decide(text, roots, monkeypatch):
    monkeypatch.setattr(candidate.importlib.util, "find_spec", lambda name: name != "tvm_ffi" or None)
    assert sorted({m.partition(".")[0] for m in candidate.late(text, "python")}) == roots


def test_cuda_text_and_absent_modules_load_nothing(monkeypatch):
    assert candidate.late("import cutlass\n", "cuda") == ()
    monkeypatch.setattr(candidate.importlib.util, "find_spec", lambda name: None)
    assert candidate.late("import cutlass\n", "python") == ()


SAYS = "import sys\nraise ValueError('mailbox' in sys.modules)\n"


@pytest.mark.parametrize("late", [("mailbox",), ()])
def test_late_modules_are_imported_by_the_child_alone(full_sandbox, late):
    """The fork server never has them: they may start CUDA, which no fork could use. (The second child is a later fork
    of the same server.)"""
    with sandbox.take(preload=PRELOAD, late=late) as box:
        reply = box.request({"entry": "engine.trace.child", "source": SAYS}, timeout=30)
    assert f"ValueError: {bool(late)}" in reply["error"]["reason"]


def test_a_warm_child_serves_only_those_who_want_its_modules(full_sandbox):
    sandbox.warm(preload=PRELOAD, late=("mailbox",))
    with sandbox.take(preload=PRELOAD) as plain, sandbox.take(preload=PRELOAD, late=("mailbox",)) as warmed:
        assert (plain.late, warmed.late) == ((), ("mailbox",))
    sandbox.drain()
