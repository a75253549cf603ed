"""A module's own tensors, where they are large, reach the worker in memory that both share: their first copy to the
host's memory would take seconds for gigabytes."""

import pytest

from engine.devices import Problem
from engine.evaluate import shared_memory
from engine.evaluate.reference import module_process
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.shared_tensors import read
from tests.engine.traced import once

from .test_cuda_on_cpu import MODULE, device, of_module  # noqa: F401 - a fixture

COUNTS = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
    def forward(self, x):
        self.count += 1
        return x + self.count
def get_inputs(): return [torch.randn(8, 4)]
"""


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(module_process, "LATER_BYTES", 0)


def reference_of(device) -> Reference:  # noqa: F811
    return device.workbench.programs.rounds.session.reference


def validated(device):  # noqa: F811
    return {check["family"] for check in device.validate(of_module(device)).checks}


def test_a_right_program_is_right_on_them_and_nothing_crossed_the_host(device):  # noqa: F811
    assert "own" in validated(device)
    assert reference_of(device).own_waits


def test_a_machine_that_shares_no_such_memory_copies_them(device, monkeypatch):  # noqa: F811
    def not_shared(*_):
        raise shared_memory.NotShared("no such memory here")

    monkeypatch.setattr("engine.evaluate.candidate.worker.Worker.block", not_shared)
    assert "own" in validated(device)
    assert not reference_of(device).own_waits


def test_who_asks_for_them_on_the_host_gets_them():
    with Reference(Problem(MODULE, "module", once(MODULE).graph, 0)) as reference:
        assert reference.own_waits
        own = read(reference.inputs_own())
        assert not reference.own_waits and all(t.abs().sum() > 0 for t in own.values())


def test_what_forward_writes_is_copied_before_the_first_call():
    with Reference(Problem(COUNTS, "module", once(COUNTS).graph, 0)) as reference:
        assert not reference.own_waits
        reference.compute("own", 0)
        assert read(reference.inputs_own())["count"].sum() == 0
