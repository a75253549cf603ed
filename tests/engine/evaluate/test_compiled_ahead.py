"""torch.compile's baseline is compiled before it runs: no kernel runs until the baseline is opened, and nothing is
compiled then. In processes of their own, because compilers are let in there for good."""

import json
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from engine.devices import Problem, TrialError
from engine.evaluate.reference.module_process import Reference
from tests.engine.traced import once as trace

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


MODULE = """
import time, torch, torch.nn as nn

class Inductor:  # compiles nothing; it prints what is compiled and what runs
    def __init__(self, mode, *more): self.mode = mode
    def __call__(self, graph, inputs, **more):
        print("compile", self.mode, torch.backends.cuda.matmul.allow_tf32, flush=True)
        time.sleep(SECONDS)
        return lambda *a: (print("run", flush=True), graph.forward(*a))[1]

torch._TorchCompileInductorWrapper = Inductor

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Linear(64, 32), nn.BatchNorm1d(32)
    def forward(self, x):
        return torch.relu(self.norm(self.up(x)))
def get_inputs(): return [torch.randn(96, 64)]
"""


@pytest.fixture
def reference(full_sandbox):
    def start(seconds=0.0):
        source = MODULE.replace("SECONDS", str(seconds))
        graph = trace(MODULE.replace("SECONDS", "0"), local_user=True).graph
        opened.append(Reference(Problem(source, "module", graph), host_clock=True).start())
        return opened[-1]

    opened = []
    yield start
    for one in opened:
        one.close()


def printed(one: Reference) -> str:
    """All that the process has printed, which arrives beside its replies and may come later."""
    text, later = None, one.log
    while text != later:
        time.sleep(0.5)
        text, later = later, one.log
    return text


def test_the_modules_process_compiles_first_and_samples_later(reference):
    one = reference()
    one.compute("normal", 1)  # another model's state and a wider one, as in a session
    for name, cls in (("compile", "f32"), ("compile_tf32", "tf32")):
        before = printed(one).count("run")
        one.compile(name, 60.0)
        compiled = printed(one).count("compile")
        assert printed(one).count("run") == before
        assert one.baseline_open(name, 0, "eager") == (cls, "torch.compile" + ", TF32 allowed" * (cls == "tf32"))
        assert one.baseline_sample().ms > 0 and one.baseline_sample(beside=True).ms > 0
        assert printed(one).count("compile") == compiled and printed(one).count("run") > before
    assert one.lost == 0


def test_one_that_takes_too_long_is_ended_and_the_next_one_gets_a_new_process(reference):
    one = reference(seconds=60)
    with pytest.raises(TrialError) as caught:
        one.compile("compile", 3.0)
    assert caught.value.code == "reference_time_limit" and "within 3 s" in caught.value.reason
    assert one.baseline_open("eager") == ("f32", "as PyTorch ships it") and one.lost == 1


def test_a_stopped_session_ends_it(reference):
    one, began = reference(seconds=300), time.monotonic()
    one.cancelled = lambda: time.monotonic() > began + 1
    with pytest.raises(TrialError) as caught:
        one.compile("compile", 200.0)
    assert caught.value.code == "reference_cancelled" and time.monotonic() < began + 100
