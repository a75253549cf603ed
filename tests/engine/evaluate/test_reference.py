"""The process that holds the pasted module: it answers in shared memory, and its death is a sentence, not an end."""

import os
import time

import pytest
import torch

from engine.devices import Problem, SessionRefused, TrialError
from engine.evaluate.correctness import inputs
from engine.evaluate.correctness.row_slices import rows_for
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.shared_tensors import Region, read
from tests.engine.graphs import linear
from tests.engine.traced import once

pytestmark = pytest.mark.usefixtures("full_sandbox")

MLP = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.register_buffer("shift", torch.full((64,), 0.5))
    def forward(self, x):
        return self.down(torch.relu(self.up(x))) + x + self.shift
def get_inputs(): return [torch.randn(96, 64)]
"""


def problem(source, seed=0):
    return Problem(source, "module", once(source).graph, seed)


@pytest.fixture(scope="module")
def mlp():
    with Reference(problem(MLP)) as reference:
        yield reference


def by_hand(t, dtype=torch.float64):
    t = {n: v.to(dtype) for n, v in t.items()}
    hidden = torch.relu(t["x"] @ t["up_weight"].T + t["up_bias"])
    return hidden @ t["down_weight"].T + t["down_bias"] + t["x"] + t["shift"]


def test_own_inputs_and_state_come_over_shared_memory(mlp):
    own = read(Region.from_json(mlp.inputs_own().to_json()))  # a worker gets the description alone
    assert {n: tuple(v.shape) for n, v in own.items()} == {
        "up_weight": (256, 64), "up_bias": (256,), "down_weight": (64, 256), "down_bias": (64,), "shift": (64,),
        "x": (96, 64),
    }  # fmt: skip
    out = mlp.compute("own", 0)
    assert out.precision == "f64"
    assert torch.allclose(read(out.region)["add_1"], by_hand(own), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", inputs.FAMILIES[1:])
@pytest.mark.parametrize("rows", [None, 8])
def test_the_reference_of_a_family_is_what_another_process_computes(mlp, family, rows):
    out = mlp.compute(family, 11, rows)
    values = read(mlp.inputs_own()) | inputs.fill_graph(mlp.problem.graph, family, 11, rows=rows)
    wanted = by_hand(values)
    got = read(out.region)["add_1"]
    assert got.shape == wanted.shape == (rows or 96, 64)
    assert got.dtype == torch.float64
    assert torch.allclose(got, wanted, rtol=1e-12, atol=1e-12 * float(wanted.abs().max()))


def test_own_is_still_own_after_other_families(mlp):
    mlp.compute("large", 1)
    assert torch.allclose(read(mlp.compute("own", 0).region)["add_1"], by_hand(read(mlp.inputs_own())), rtol=1e-12)


def test_pytorch_s_own_error_grows_as_its_precision_falls(mlp):
    error = {c: mlp.pytorch_error("normal", 5, c).error for c in ("f32", "tf32", "f16", "bf16")}
    assert 0 < error["f32"] < 1e-6
    assert 1e-5 < error["f16"] < 4 * 2**-11
    assert 1e-5 < error["tf32"] < 4 * 2**-11
    assert error["f16"] < error["bf16"] < 4 * 2**-8
    assert error["f32"] < error["tf32"]


def test_a_module_of_half_precision_is_widened():
    source = MLP.replace("+ self.shift", "+ self.shift").replace(
        "def get_inputs(): return [torch.randn(96, 64)]",
        "def get_inputs(): return [torch.randn(96, 64, dtype=torch.float16)]",
    ).replace('0.5))\n', '0.5))\n        self.half()\n')  # fmt: skip
    with Reference(problem(source)) as reference:
        out = reference.compute("normal", 2)
        assert out.precision == "f64"
        values = read(reference.inputs_own()) | inputs.fill_graph(reference.problem.graph, "normal", 2)
        assert values["x"].dtype == torch.float16
        assert torch.allclose(read(out.region)["add_1"], by_hand(values), rtol=1e-12)
        assert 0 < reference.pytorch_error("normal", 2, "f16").error < 4 * 2**-11


def test_a_module_that_names_its_types_is_computed_in_float64_too():
    source = MLP.replace("torch.relu(self.up(x))", "torch.relu(self.up(x.to(torch.bfloat16))).float()")
    source = source.replace("nn.Linear(64, 256)", "nn.Linear(64, 256, dtype=torch.bfloat16)")
    with Reference(problem(source)) as reference:
        out = reference.compute("normal", 2)
        assert out.precision == "f64"
        values = read(reference.inputs_own()) | inputs.fill_graph(reference.problem.graph, "normal", 2)
        (right,) = read(out.region).values()
        assert torch.allclose(right, by_hand(values), rtol=1e-12)
        # Held against its own run instead, PyTorch would make no error, and no other program could be right.
        assert 2**-12 < reference.pytorch_error("normal", 2, "bf16").error < 4 * 2**-8


def test_fewer_rows_are_refused_by_a_module_that_mixes_them():
    source = MLP.replace("+ self.shift", "+ self.shift.repeat(96, 1)")
    with Reference(problem(source)) as reference:
        with pytest.raises(TrialError) as caught:
            reference.compute("normal", 0, rows=8)
        assert caught.value.code == "rows_refused"
        assert reference.compute("normal", 0).rows is None  # and it goes on


def test_rows_for_keeps_a_cpu_to_about_a_second():
    assert rows_for(problem(MLP).graph) is None
    large = MLP.replace("64, 256", "4096, 4096").replace("256, 64", "4096, 4096").replace("(64,)", "(4096,)")
    large = large.replace("(96, 64)", "(4096, 4096)")
    assert rows_for(problem(large).graph) == 296


def test_a_child_that_dies_is_replaced_at_the_next_call():
    with Reference(problem(MLP, seed=3)) as reference:
        before = read(reference.compute("own", 0).region)["add_1"]
        os.kill(reference._box._process.pid, 9)
        while reference._box.alive:
            time.sleep(0.01)
        assert torch.equal(read(reference.compute("own", 0).region)["add_1"], before)
        assert reference.lost == 1


def test_a_module_that_hangs_later_ends_the_trial_not_the_session():
    slow = MLP.replace(
        "    def forward(self, x):\n", "    def forward(self, x):\n        while x.shape[0] == 8: pass\n"
    )
    with Reference(problem(slow)) as reference:
        with pytest.raises(TrialError) as caught:
            reference.compute("normal", 0, rows=8, timeout=3)
        assert caught.value.code == "reference_time_limit"
        assert "Line 9" in caught.value.reason
        assert reference.compute("normal", 0).precision == "f64"


def test_a_module_that_changes_between_runs_is_refused():
    unsteady = MLP.replace("torch.randn(96, 64)", "torch.randn(__import__('os').getpid() * 0 + 96, 64)")
    p = problem(unsteady)
    p = Problem(unsteady.replace("+ 96, 64)", "+ 95, 64)"), "module", p.graph, 0)
    with pytest.raises(SessionRefused) as caught:
        Reference(p).start()
    assert caught.value.code == "unsteady"


def test_times_are_refused_without_a_gpu(mlp):
    with pytest.raises(TrialError) as caught:
        mlp.baseline_open("eager")
    assert caught.value.code == "no_cuda"


def test_tf32_that_pytorch_was_allowed_and_did_not_use_is_none_of_the_class():
    """A CPU multiplies in f32 whatever it is allowed: what cuDNN does where it likes that better."""
    from types import SimpleNamespace

    import torch

    from engine.evaluate.reference.right_results import RightResults

    torch.manual_seed(1)
    a, b = torch.randn(64, 512), torch.randn(512, 32)
    right = a.double() @ b.double()
    process = SimpleNamespace(device="cuda", model=None, run=lambda model, values, wide: [a @ b])
    process.graph, process.torch = linear(rows=64, k=512, n=32, bias=False), torch
    module = RightResults(process)
    module.results, module.values = lambda *_: ("f64", [right]), lambda *_: {}
    reply = module.error("normal", 1, "tf32", None, False)
    assert 2e-4 < reply["error"] < 2e-3  # that of rounded operands
    assert module.error("normal", 1, "f32", None, False)["error"] < 1e-6
    assert torch.get_float32_matmul_precision() == "highest"


def test_pytorch_has_no_error_of_its_own_where_the_reference_is_no_finer_than_the_class():
    """Too many FLOPs for float64 on a CPU. PyTorch differs from such a reference by nothing: no program could be
    right to twice that."""
    source = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x @ x
def get_inputs(): return [torch.randn(3136, 3136)]
"""
    with Reference(problem(source)) as reference:
        assert reference.compute("normal", 2).precision == "f32"
        assert reference.pytorch_error("normal", 2, "f32") is None
        assert reference.pytorch_error("normal", 2, "tf32").error > 1e-5


def test_a_result_that_autocast_leaves_in_f32_is_compared_as_the_module_returns_it():
    """On a GPU autocast computes a softmax in float32 and returns that. A program stores float16, as the module does:
    beside an error of 6e-8 none could be right."""
    from types import SimpleNamespace

    from engine.evaluate.reference.right_results import RightResults

    torch.manual_seed(2)
    right = torch.softmax(torch.randn(64, 32).double(), -1)
    process = SimpleNamespace(device="cpu", model=None, run=lambda model, values, wide: [right.float()])
    process.graph, process.torch = linear(rows=64, k=512, n=32, bias=False, dtype="f16"), torch
    module = RightResults(process)
    module.results, module.values = lambda *_: ("f64", [right]), lambda *_: {}
    assert 5e-5 < module.error("normal", 3, "f16", None, False)["error"] < 1e-3
