"""The generated check.py gives each of a program's parameters the module's own tensor, over every problem of the suite.

Without a GPU: modules and inputs are made on the `meta` device, which has shapes and no memory.
"""

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsl.printer import to_text  # noqa: E402
from engine.export import Exported, package, write  # noqa: E402
from engine.export.history import places  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from tests.engine.export.packages import SUITE  # noqa: E402

SHIPPED = Path(package.__file__).parent / "shipped"


@contextlib.contextmanager
def imported(path, name):
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


@pytest.mark.parametrize("name", sorted(SUITE))
def test_every_parameter_is_bound_to_the_tensor_that_the_planner_meant(name, graphs, tmp_path):
    text = SUITE[name]
    graph = graphs[name]
    lowered = lower(graph, name)
    bound = places(map(vars, lowered.inputs), graph)
    for bindings in (bound, {}):  # without bindings, as of an older log, tensors are known by their names
        what = Exported(to_text(lowered.program("tf32")), "tf32", "cute", text, **bindings)
        out = tmp_path / ("bound" if bindings else "named")
        write(package.files(what), out)
        (binding,) = out.glob("ucutlass_*/__init__.py")
        with imported(out / "check.py", "shipped_check") as check, imported(binding, "shipped_program") as program:
            original = check.Original(torch, program, out / "module.py", device="meta")
            sources = list(original.sources())
            for b, (source, x) in zip(lowered.inputs, sources, strict=True):
                tensor = graph.tensors[b.tensor]
                if tensor.path:
                    assert source == tensor.path, b
                else:
                    assert x is original.inputs[graph.inputs.index(b.tensor)], b
            shapes = [tuple(x.shape) for x in original.bind()]
            assert shapes == [shape for _, shape, _ in program.PARAMETERS]


MAKES_ONE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * torch.tensor([1.5, 2.0])


def get_inputs():
    return [torch.randn(3, 2)]
"""


CALLED = """\
import sys, torch
from pathlib import Path
import check
print([y.device.type for y in check.Original(torch, None, Path(sys.argv[1]), device="meta").called()])
"""


def test_a_tensor_that_forward_makes_is_made_where_the_module_is(tmp_path):
    """In a process of its own, because the check sets whether PyTorch uses TF32."""
    path = tmp_path / "module.py"
    path.write_text(MAKES_ONE, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", CALLED, path], cwd=SHIPPED, capture_output=True, text=True)
    assert done.stdout == "['meta']\n", done.stderr
