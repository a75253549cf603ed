"""The GPUs of this machine: which there are, whether programs run there, and what a problem takes of their memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from engine.build import toolchain
from engine.build.toolchain import Toolchain
from engine.devices import SessionRefused
from engine.devices.gpu_names import hardware_of
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.correctness.inputs import input_bytes
from engine.evaluate.correctness.row_slices import row_inputs
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.samples import input_sets
from engine.jsonprocess import WorkerLost
from sol.graph import OpGraph
from sol.hardware import Hardware, load

logger = logging.getLogger(__name__)

ARCH = "sm_90a"  # the target of both back ends
# Bytes of the GPU's memory: of a process's CUDA context with its libraries, and of one element of any tensor, for the
# reference in float64 and its copy in the worker; and how often a session has the module's own tensors, beside the sets
# of inputs that timing rotates through in both processes.
CONTEXT, PER_ELEMENT, COPIES = 700 << 20, 24, 3
# At most so much in float64 where the reference is computed some rows at a time: slices with what they need between
# (engine.evaluate.reference.right_results) and a chunk that is compared (engine.evaluate.correctness.tolerance).
SLICED = 12 << 30


def visible() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; one unnamed if NVML is missing."""
    return gpu_condition.visible() or [""]


def only(which: str) -> dict[str, str]:
    """What a process needs in its environment to see only this one of `visible`; {} if it has no name."""
    return {"CUDA_VISIBLE_DEVICES": which, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if which else {}


def alike(one: str, other: str) -> bool:
    """Whether two of `visible` are of one kind, so that programs for one are right for the other."""
    first, second = gpu_condition.read(one or None), gpu_condition.read(other or None)
    return bool(first and second and first["name"] and first["name"] == second["name"])


def describe(which: str = "") -> tuple[dict[str, Any], Hardware, Toolchain]:
    """(the GPU's name, driver and condition, its figures, the toolchain). Raises SessionRefused if programs cannot run
    on it. `which`: of `visible`."""
    gpu = gpu_condition.read(which or None) or _by_cuda()
    if gpu is None or not gpu["name"]:
        raise SessionRefused("no_gpu", "there is no NVIDIA GPU here, or its driver does not answer")
    hw = load(hardware_of(gpu["name"]))
    if hw.arch != ARCH:
        raise SessionRefused(
            "unsupported_gpu", f"programs are compiled for Hopper ({ARCH}); {gpu['name']} is {hw.arch}"
        )
    tools = toolchain.find()
    if not tools.cute:
        missing = " ".join(tools.missing("torch", "cute_dsl", "quack"))
        raise SessionRefused("no_toolchain", f"there is a GPU, but the toolchain is incomplete. {missing}")
    return gpu | {"free_bytes": gpu_condition.free_bytes(which or None)}, hw, tools


def _by_cuda() -> dict | None:
    """The GPU as CUDA names it, from a separate process: a container may have the device but not NVML. Takes 9 s."""
    if not Path("/dev/nvidiactl").exists() or not toolchain.find().has("torch"):
        return None
    worker = Worker()
    try:
        return {"name": worker.warm()["name"], "driver": None}
    except WorkerLost as e:
        logger.warning("%s %s", e, e.log[-500:])
        return None
    finally:
        worker.close()


def bytes_needed(graph: OpGraph) -> tuple[int, int]:
    """Bytes of a GPU's memory that a session of this module holds, about: at most, and between its turns. Two contexts,
    its own tensors in both processes, and a graph of PyTorch's calls with all its tensors; in its turns also the sets
    of inputs that timing rotates through, and results in float64."""
    own = sum(t.bytes for t in graph.tensors.values() if t.kind != "intermediate")
    graphs = sum(t.bytes for t in graph.tensors.values())
    elements = sum(t.elements for t in graph.tensors.values())
    inputs, wide = input_bytes(graph), PER_ELEMENT * elements
    if wide > SLICED and row_inputs(graph) is not None:
        wide = SLICED
    most = 2 * CONTEXT + COPIES * own + 2 * input_sets(inputs) * inputs + wide
    return most, min(most, 2 * CONTEXT + COPIES * own + graphs)
