"""Results of a pasted module lie in memory that its process and the worker share, and cross no file. On a CPU that
memory is a memory file; the same processes use the GPU's memory where there is one (tests/gpu)."""

import os
import socket

import pytest
import torch

from engine import door, sandbox
from engine.devices import Problem, TrialError
from engine.evaluate import shared_memory
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.shared_tensors import Slot, layout, read
from engine.sandbox import Sandbox
from tests.engine.traced import once as trace

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return x @ y, (x > 0).sum(dim=1)
def get_inputs(): return [torch.randn(32, 16), torch.randn(16, 24)]
"""


@pytest.fixture(scope="module")
def reference():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    with Reference(Problem(MODULE, "module", trace(MODULE).graph, 0)) as reference:
        yield reference
    sandbox.drain()


def adopted(reference) -> shared_memory.Block:
    """A block of ours that the module's process lays its results in."""
    block = shared_memory.create(reference.result_bytes, "cpu")
    reference.adopt(block.fd, "us")
    block.shared()
    return block


def values(outputs, block) -> dict:
    region = outputs.region
    return read(region) if region.path else {n: block.tensor(slot).clone() for n, slot in region.tensors.items()}


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


def test_two_ends_of_a_block_are_the_same_bytes():
    slots, size = layout({"a": ((3, 5), "f16"), "b": ((7,), "f64"), "none": ((0, 4), "f32")})
    ours, theirs = socket.socketpair()
    block = shared_memory.create(size, "cpu")
    with ours, theirs:
        door.give(ours, block.fd, shared_memory.SECONDS)
        other = shared_memory.adopt(shared_memory.take(theirs), size, "cpu")
    block.shared()
    block.tensor(slots["a"]).copy_(torch.arange(15.0).reshape(3, 5))
    other.tensor(slots["b"]).fill_(2.5)
    assert torch.equal(other.tensor(slots["a"]), torch.arange(15).reshape(3, 5).half())
    assert block.tensor(slots["b"]).tolist() == [2.5] * 7 and tuple(block.tensor(slots["none"]).shape) == (0, 4)


def test_a_door_without_a_descriptor_is_an_error_and_not_a_wait(monkeypatch):
    monkeypatch.setattr(shared_memory, "SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(shared_memory.NotShared, match="no descriptor came"):
            shared_memory.take(theirs)
        ours.send(b"m")
        with pytest.raises(shared_memory.NotShared, match="no descriptor came"):
            shared_memory.take(theirs)


def test_results_in_a_block_are_those_of_the_host(reference):
    wanted = read(reference.compute("normal", 7).region)
    block = adopted(reference)
    outputs = reference.compute("normal", 7)
    assert outputs.region.path == "" and same(values(outputs, block), wanted)
    assert reference.pytorch_error("normal", 7, "f16").error > 0, "it compares with the results in the block"
    reference.trim()
    outputs = reference.compute("normal", 7)
    assert outputs.region.path and same(read(outputs.region), wanted), "a trimmed process has no block any more"


def test_results_for_the_judge_lie_in_the_hosts_memory_beside_a_block(reference):
    """The judge of raw kernels may be another process than the worker whose block it is."""
    block = adopted(reference)
    wanted = values(reference.compute("normal", 6), block)
    outputs = reference.compute("normal", 6, to_host=True)
    assert outputs.region.path and same(read(outputs.region), wanted)
    outputs = reference.compute("normal", 6)
    assert outputs.region.path == "" and same(values(outputs, block), wanted), "the block is still there"


def test_a_new_process_knows_no_block_and_answers_in_the_hosts_memory(reference):
    block = adopted(reference)
    wanted = values(reference.compute("normal", 8), block)
    reference._box.close()
    outputs = reference.compute("normal", 8)
    assert outputs.region.path and same(read(outputs.region), wanted) and reference.block is None


def test_a_block_that_is_too_small_is_refused(reference):
    small = os.memfd_create("small")
    with pytest.raises(TrialError) as caught:
        reference.adopt(small, "us")
    assert caught.value.code == "not_shared"
    os.close(small)


def test_nobody_can_shrink_a_block_under_another_process():
    block = shared_memory.create(1 << 20, "cpu")
    with pytest.raises(PermissionError):
        os.ftruncate(block.fd, 0)
    block.shared()


def test_a_worker_makes_a_block_and_reads_results_from_it(reference):
    worker = Worker(device="cpu")
    try:
        worker.warm()
        worker.ask("validate", "open", timeout=120, graph=reference.problem.graph.to_json(), own=None)
        fd = worker.block("validate", reference.result_bytes)
        reference.adopt(fd, worker.generation)
        os.close(fd)
        region = reference.compute("normal", 9).region
        place = region.to_json()
        reply = worker.ask("validate", "keep", timeout=120, family="normal", seed=9, reference=place)
        assert region.path == "" and reply["kept"]
    finally:
        worker.close()


def test_a_slot_lies_where_the_layout_says():
    block = shared_memory.create(4096, "cpu")
    block.tensor(Slot(256, (4,), "i32")).copy_(torch.tensor([1, 2, 3, 4], dtype=torch.int32))
    assert block.bytes()[256:272].view(torch.int32).tolist() == [1, 2, 3, 4]
    block.shared()
