"""The modules of the tab Words run in PyTorch with the sizes that were described, and lower to programs."""

import re

import pytest
import torch
from torch.overrides import TorchFunctionMode

from dsl import functions
from engine.sandbox import Sandbox
from engine.strategies.planner.lowering.lower import lower
from playground.words.writer import write
from tests.engine.traced import in_copies
from tests.playground.words.held_out import HELD_OUT
from tests.playground.words.operations import ARITHMETIC, LAYERS
from tests.playground.words.phrases import PHRASES

NAMED = [n for n in functions.NAMED if n != "where"]  # a choice has no word of its own
FUNCTIONS = {n: f"{n.replace('_', ' ')} of a 4x16 matrix" for n in NAMED if n not in ARITHMETIC}
OPERATIONS = ARITHMETIC | FUNCTIONS | LAYERS
ALL_FUNCTIONS = "linear layer from 16 to 8, batch 4, then " + ", ".join(
    ARITHMETIC.get(n, n.replace("_", " ")).split(", input")[0].split(" of a")[0].split(" to a")[0] for n in NAMED
)


class Calls(TorchFunctionMode):
    """The names of the functions of PyTorch that are called."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__.strip("_"))
        return function(*args, **(kwargs or {}))


def run(module: str, device: str):
    """(inputs, result, names of the functions called) of a module on a device. `meta` computes shapes alone."""
    names: dict = {}
    exec(module, names)
    with torch.device(device), torch.no_grad():
        model, inputs = names["Model"](*names["get_init_inputs"]()).eval(), names["get_inputs"]()
        with Calls() as calls:
            result = model(*inputs)
    return inputs, result, calls.names


def in_order(wanted: list[str], names: list[str]) -> bool:
    rest = iter(names)
    return all(any(name == n for n in rest) for name in wanted)


@pytest.mark.parametrize(("words", "inputs", "result", "dtype", "calls"), HELD_OUT + PHRASES)
def test_a_description_gives_its_sizes_its_type_and_its_operations(words, inputs, result, dtype, calls):
    written = write(words)
    assert written.not_understood == []
    tensors, out, names = run(written.module, "meta")
    assert [tuple(t.shape) for t in tensors] == inputs and tuple(out.shape) == result
    assert {str(t.dtype) for t in (*tensors, out)} == {f"torch.{dtype}"}
    assert in_order(calls, names), names


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_of_the_language_runs(name):
    written = write(OPERATIONS[name])
    assert written.not_understood == []
    _, out, _ = run(written.module, "cpu")
    assert torch.isfinite(out).all()
    size = re.search(r"a result of (.*)$", written.understood[-1])[1]
    assert ("x".join(map(str, out.shape)) or "one number") == size


def test_every_function_of_the_language_has_words():
    assert set(NAMED) <= set(OPERATIONS)
    described = " ".join(write(ALL_FUNCTIONS).understood)
    assert [n for n in NAMED if n not in ("max", "min") and n.replace("_", " ") not in described] == []


@pytest.mark.parametrize("name", ["every function", *LAYERS])
def test_a_module_from_words_lowers_to_a_program(name):
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    words = ALL_FUNCTIONS if name == "every function" else LAYERS[name]
    graph = in_copies(write(words).module).graph
    lowered = lower(graph)
    assert lowered.stages and lowered.program("tf32").stages
