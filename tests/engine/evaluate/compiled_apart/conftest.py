"""The measuring machine on a CPU, which counts the module's processes."""

import pytest

pytest.importorskip("torch")

from engine.devices import cuda
from engine.evaluate.evaluator import Evaluator
from tests.engine.devices.on_cpu import cuda_on_cpu
from tests.engine.evaluate.compiled_apart.playing import Played


@pytest.fixture
def played(tmp_path, monkeypatch, full_sandbox):
    machine, processes = cuda_on_cpu(tmp_path, monkeypatch), []
    process = cuda.module_process.Reference

    def counted(*arguments, **more):
        processes.append(process(*arguments, **more))
        return processes[-1]

    monkeypatch.setattr(cuda.module_process, "Reference", counted)
    device = Evaluator(machine)
    yield Played(device, processes)
    device.close()
    machine.shutdown()
