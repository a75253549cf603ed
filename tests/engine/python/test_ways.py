"""torch.compile is timed beside what a search made, and is the result where it is faster."""

import json
import time

import pytest
import torch
from torch import nn
from ucutlass import Report, ways

from engine.evaluate.timing.samples import HostTimer

SLOW = 0.004  # seconds


class Net(nn.Module):
    """`pause`: seconds by which eager calls are late; what torch.compile makes of it pauses only while it traces."""

    def __init__(self, pause=0.0):
        super().__init__()
        self.linear, self.pause = nn.Linear(8, 8), pause
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            time.sleep(self.pause)
        self.calls.add_(1)
        return {"y": torch.relu(self.linear(x))}


REPORT = Report("net", "a GPU", "measured", "f16", 2.0, 3.0, "PyTorch eager (f16)", 1.5, ("a program",))


def with_report(module):
    """As a search returns it."""
    module.__dict__["report"] = REPORT
    return module.eval()


def fastest(module, ours):
    return ways.fastest(module, ours, (torch.ones(2, 8),), HostTimer, backend="eager")


@pytest.fixture(autouse=True)
def compiles():
    """As in a fresh process: tests of the tracer leave torch.compile off."""
    with torch.compiler.set_stance("default"):
        torch._dynamo.reset()
        yield


@pytest.fixture
def slow():
    module = Net(SLOW).eval()
    return module, with_report(Net(SLOW))


def test_torch_compile_is_the_result_where_it_is_faster(slow):
    module, ours = slow
    result = fastest(module, ours)
    report = result.report
    assert report.way == "torch.compile" and report.cls == "" and report.programs == ()
    assert report.ms == report.compiled_ms < SLOW * 1e3 and report.speedup > 1 and report.baseline == "PyTorch eager"
    assert "torch.compile stays, which no program beats" in str(report) and "our best program takes" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["way"] == "torch.compile"


def test_it_is_the_module_with_its_own_parameters(slow):
    module, ours = slow
    result = fastest(module, ours)
    assert isinstance(result, Net) and result.linear.weight is module.linear.weight
    assert list(result.state_dict()) == list(module.state_dict())
    with torch.no_grad():
        x = torch.randn(2, 8)
        assert torch.equal(result(x)["y"], module(x)["y"])
    assert not hasattr(module, "report") and module._compiled_call_impl is None


def test_the_programs_stay_where_they_are_faster():
    module = Net().eval()
    quick = with_report(nn.Identity())
    result = fastest(module, quick)
    assert result is quick and result.report.cls == "f16" and result.report.way == ""
    assert result.report.compiled_ms > 0 and "torch.compile takes" in str(result.report)


def test_what_the_module_writes_is_put_back(slow):
    module, ours = slow
    fastest(module, ours)
    assert module.calls == 0


def refuses(graph, inputs):
    raise NotImplementedError("no such operation here")


def test_a_module_that_torch_compile_refuses_keeps_its_programs():
    module, ours = Net().eval(), with_report(nn.Identity())
    result = ways.fastest(module, ours, (torch.ones(2, 8),), HostTimer, backend=refuses)
    assert result is ours and result.report.programs == ("a program",)
    assert "torch.compile refused the module" in str(result.report)
