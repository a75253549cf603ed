"""The process of a raw kernel loads the slow modules that its text imports before the text comes."""

import pytest

from engine import sandbox
from engine.evaluate.integrity.process import candidate
from engine.sandbox import forkserver
from engine.trace import PRELOAD


@pytest.mark.parametrize(
    "text, roots",
    [
        ("import torch\n", []),
        ("import cutlass.cute as cute\n", ["cutlass"]),
        ("def f():\n    from quack.gemm import g\n", ["cutlass", "engine", "quack"]),
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


def imported(late, **how) -> bool:
    with sandbox.take(preload=PRELOAD, late=late, **how) as box:
        reply = box.request({"entry": "engine.trace.child", "source": SAYS}, timeout=30)
    assert "ValueError" in reply["error"]["reason"]
    return "True" in reply["error"]["reason"]


def test_late_modules_are_imported_for_those_alone_who_want_them(full_sandbox):
    """They may start CUDA, which no fork could use: they have a server of their own."""
    assert imported(("mailbox",)) and not imported(()), "the second one is a later fork"


def test_where_that_server_does_not_work_each_imports_them_itself(full_sandbox, monkeypatch):
    monkeypatch.setitem(forkserver.kinds, (False, True), forkserver.Kind(able=False))
    assert imported(("mailbox",)) and not imported(())


def test_a_warm_child_serves_only_those_who_want_its_modules(full_sandbox):
    sandbox.warm(preload=PRELOAD, late=("mailbox",))
    with sandbox.take(preload=PRELOAD) as plain, sandbox.take(preload=PRELOAD, late=("mailbox",)) as warmed:
        assert (plain.late, warmed.late) == ((), ("mailbox",))
    sandbox.drain()
