"""Memory of the GPU crosses the sandbox by a descriptor: results of a module reach the worker without the host."""

import os

import pytest

torch = pytest.importorskip("torch")

from engine.devices import Problem  # noqa: E402
from engine.evaluate import shared_memory  # noqa: E402
from engine.evaluate.candidate.gpu_session import GpuSession  # noqa: E402
from engine.evaluate.candidate.worker import Worker  # noqa: E402
from engine.evaluate.reference.module_process import Reference  # noqa: E402
from engine.evaluate.shared_tensors import read  # noqa: E402
from engine.trace import trace  # noqa: E402

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return x @ y, (x > 0).sum(dim=1)
def get_inputs(): return [torch.randn(4096, 2048), torch.randn(2048, 4096)]
"""


def test_results_in_the_gpus_memory_are_those_of_the_host(cuda):
    problem = Problem(MODULE, "module", trace(MODULE, local_user=True).graph, 0)
    with Reference(problem, "cuda", local_user=True) as reference:
        wanted = read(reference.compute("normal", 7).region)
        block = shared_memory.create(reference.result_bytes, "cuda")
        reference.adopt(block.fd, "us")
        block.shared()
        outputs = reference.compute("normal", 7)
        assert outputs.region.path == ""
        for name, slot in outputs.region.tensors.items():
            assert torch.equal(block.tensor(slot).cpu(), wanted[name])
        assert reference.pytorch_error("normal", 7, "f16").error > 0


def test_a_worker_keeps_results_that_never_were_on_the_host(cuda):
    problem = Problem(MODULE, "module", trace(MODULE, local_user=True).graph, 0)
    worker = Worker(cuda.machine.workers.environment)
    try:
        with Reference(problem, "cuda", local_user=True) as reference:
            worker.warm()
            worker.ask("validate", "open", timeout=60, graph=problem.graph.to_json(), own=None)
            fd = worker.block("validate", reference.result_bytes)
            reference.adopt(fd, worker.generation)
            os.close(fd)
            place = reference.compute("normal", 9).region.to_json()
            assert place["path"] == ""
            assert worker.ask("validate", "keep", timeout=60, family="normal", seed=9, reference=place)["kept"]
    finally:
        worker.close()


def test_a_worker_gets_large_inputs_that_never_were_on_the_host(cuda, monkeypatch):
    monkeypatch.setattr("engine.evaluate.reference.module_process.LATER_BYTES", 0)
    problem = Problem(MODULE, "module", trace(MODULE, local_user=True).graph, 0)
    worker = Worker(cuda.machine.workers.environment)
    try:
        with Reference(problem, "cuda", local_user=True) as reference:
            session = GpuSession(problem, reference, cuda.machine.pool, worker, lambda: False)
            session.hand_over("open")
            assert reference.own_waits, "they went through a block"
            assert read(reference.inputs_own())["x"].shape == (4096, 2048)
    finally:
        worker.close()


def test_memory_is_free_again_once_both_let_go_of_it(cuda):
    torch.ones(1, device="cuda").fill_(1)  # the kernel takes memory when it is loaded
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    block = shared_memory.create(2 << 30, "cuda")
    tensor = block.bytes()
    block.shared()
    assert torch.cuda.mem_get_info()[0] <= before - (2 << 30)
    del block
    tensor.fill_(1)  # the tensor keeps the memory
    torch.cuda.synchronize()
    del tensor
    assert torch.cuda.mem_get_info()[0] >= before - (64 << 20)
