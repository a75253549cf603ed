"""torch.compile's baseline is compiled before it runs: no kernel runs until the baseline is opened, and nothing is
compiled then. In a process of its own, because compilers are let in there for good."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

CODE = """
import json, torch
from torch import nn
compiled, ran = [], []

class Inductor:  # compiles nothing, so that this test takes no compiler
    def __init__(self, mode, *more): self.mode = mode
    def __call__(self, graph, inputs, **more):
        compiled.append(self.mode)
        return lambda *a: (ran.append(1), graph.forward(*a))[1]

torch._TorchCompileInductorWrapper = Inductor
from engine.evaluate.reference.pytorch_times import Baseline, compiled_ahead
from engine.evaluate.timing.samples import clock
from engine.trace import child
from sol.graph import OpGraph

class Model(nn.Module):
    def forward(self, x):
        try:
            return torch.relu(x @ x.T)
        except Exception:
            return x

torch.manual_seed(0)
model, log = Model(), []
graph = OpGraph.from_json(json.dumps(GRAPH))
for name in ("compile", "compile_tf32", "compile_bf16"):
    del compiled[:], ran[:]
    one = compiled_ahead(name, model, (torch.randn(8, 8),), "cpu")
    before = [len(compiled), len(ran)]
    sets = [[torch.randn(8, 8)], [torch.randn(8, 8)]]
    baseline = Baseline(name, model, graph, sets, "cpu", clock("cpu"), compiled=one)
    opened = [len(compiled), len(ran)]
    right = torch.allclose(baseline.call(1).float(), torch.relu(sets[1][0] @ sets[1][0].T), atol=0.2)
    log.append([name, baseline.cls, before, opened, right])
print(json.dumps([log, compiled_ahead("eager", model, (), "cpu"), compiled_ahead("compile_max", model, (), "cpu")]))
"""


def test_it_is_compiled_once_and_runs_only_when_it_is_opened():
    from tests.engine.graphs import linear

    code = CODE.replace("json.dumps(GRAPH)", repr(linear([("relu", {})], rows=8, k=8, n=8).to_json()))
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-2000:]
    log, eager, autotuned = json.loads(out.stdout.splitlines()[-1])
    assert [row[0] for row in log] == ["compile", "compile_tf32", "compile_bf16"]
    assert all(row[2:] == [[1, 0], [1, 3], True] for row in log), log  # three calls open it
    assert eager is None and autotuned is None  # max-autotune tries kernels on the GPU, so it waits for the lane
