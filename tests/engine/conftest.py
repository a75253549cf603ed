"""What tests of the engine's room share."""

import functools

import pytest

from engine import sandbox
from engine.sandbox import Sandbox
from engine.strategies.planner import memory


@pytest.fixture(scope="session", autouse=True)
def a_module_is_traced_once():
    """Sessions, verifiers and commands take the graph of a module that was traced before in this run."""
    import engine.trace
    from tests.engine import traced

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.trace, "trace", traced.once)
        yield


@pytest.fixture(autouse=True)
def a_machine_without_a_past(monkeypatch, tmp_path_factory):
    """Devices that only say that they measure neither read nor write what real sessions on this machine found. Few
    tests ask for the file: pytest numbers each folder by a look at all the others, which takes milliseconds."""
    folder = functools.cache(lambda: tmp_path_factory.mktemp("memory"))
    monkeypatch.setattr(memory, "_file", lambda hardware: folder() / f"{hardware}.jsonl")


@pytest.fixture
def compiles():
    """torch.compile compiles, though a test before this one may have traced a module in this very process, which runs
    compiled functions uncompiled."""
    import torch

    torch._dynamo.reset()
    with torch.compiler.set_stance("default"):
        yield


@pytest.fixture(scope="module")
def full_sandbox():
    """The sandbox at its full strength; its processes end with the file."""
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    yield
    sandbox.drain()
