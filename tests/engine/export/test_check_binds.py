"""The generated check.py gives each of a program's parameters the module's own tensor, over every problem of the suite.

Without a GPU: modules and inputs are made on the `meta` device, which has shapes and no memory.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from dsl.printer import to_text  # noqa: E402
from engine.export import Exported, package, write  # noqa: E402
from engine.export.history import places  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.suite.cases import PROBLEMS, ROOT, module_ids  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

CAPITALS = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.Proj = torch.nn.ModuleDict({"In": torch.nn.Linear(64, 64), "in_2": torch.nn.Linear(64, 64)})
        self.register_buffer("Scale", torch.ones(64))

    def forward(self, X, Y):
        return self.Proj["In"](X) * self.Scale + self.Proj["in_2"](Y)


def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64)]
"""
TEXTS = {name: (PROBLEMS / f"{name}.py").read_text(encoding="utf-8") for name in module_ids()} | {"capitals": CAPITALS}


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


# Traces every text on the meta device, in a process of its own: other tests leave state in torch.
TRACING = """
import json, sys, torch
from engine.trace.capture import Capture
from engine.trace.exported import export
texts, graphs = json.load(sys.stdin), {}
for name, text in texts.items():
    names = {"__name__": "module"}
    exec(compile(text, "module.py", "exec"), names)
    with torch.device("meta"), torch.no_grad():
        model = names["Model"](*names.get("get_init_inputs", list)()).eval()
        graphs[name] = Capture(export(model, tuple(names["get_inputs"]()))).graph()
json.dump(graphs, sys.stdout)
"""


@pytest.fixture(scope="module")
def graphs():
    """Name -> op graph of every module of the test."""
    done = subprocess.run(
        [sys.executable, "-c", TRACING], input=json.dumps(TEXTS), cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {name: OpGraph.from_json(json.dumps(graph)) for name, graph in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_parameter_is_bound_to_the_tensor_that_the_planner_meant(name, graphs, tmp_path):
    text = TEXTS[name]
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
