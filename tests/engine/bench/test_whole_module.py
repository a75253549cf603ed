"""Machine code in a module's regions has the interface of one program: it is watched, called again and silenced."""

import pytest

torch = pytest.importorskip("torch")

from engine.bench.run.whole_module import Whole, values  # noqa: E402
from engine.evaluate.integrity.trial import worst  # noqa: E402
from engine.suite.evidence import checks  # noqa: E402
from engine.suite.problem import Instance  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402

CODE = """\
import torch
def kernel(x, w, y):
    y.copy_(x @ w)
    AFTER
STAGES = {"y": (kernel, None)}
def load(artifact=None):
    def run(inputs, outputs):
        kernel(*inputs, *outputs)
        BESIDE
    return run
"""


class Model(torch.nn.Module):
    """What comes after the product is PyTorch's; `scale` is a tensor that no parameter or buffer is."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 4))
        self.scale = torch.full((4,), 2.0)

    def forward(self, x):
        return torch.cumsum(x @ self.w, 0) * self.scale


@pytest.fixture
def problem():
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(8, 16)
    return Instance(model, [x], {}, None, True)


def graph():
    g = Builder()
    x, w = g.input("x", (8, 16)), g.parameter("w", (16, 4))
    s = g.op("cumsum", [g.op("mm", [x, w], (8, 4))], (8, 4), dim=0, dtype=None)
    g.parameter("scale", (4,))
    return g.graph(g.op("mul", [s, "scale"], (8, 4)))


def whole(tmp_path, problem, after="pass", beside="pass"):
    path = tmp_path / f"product{abs(hash((after, beside)))}.py"
    path.write_text(CODE.replace("AFTER", after).replace("BESIDE", beside))
    shapes = {"x": [8, 16], "w": [16, 4], "mm_0": [8, 4]}
    bound = {n: {"name": n, "tensor": n, "shape": s, "dtype": "f32"} for n, s in shapes.items()}
    placed = [{"ops": ["mm_0"], "path": str(path), "artifact": None, "program": "",
               "inputs": [bound["x"], bound["w"]], "outputs": [bound["mm_0"]]}]  # fmt: skip
    return Whole.load(graph(), placed, values(graph(), problem), "cpu", "f32")


def right(problem):
    return problem.model(*problem.inputs).detach()


def test_every_tensor_that_an_operation_reads_is_found_in_the_module(problem):
    found = values(graph(), problem)
    assert found["w"].data_ptr() == problem.model.w.data_ptr() and found["scale"] is not None
    problem.model.scale = None
    with pytest.raises(LookupError, match="no tensor 'scale'"):
        values(graph(), problem)


def test_an_honest_program_in_its_region_is_right_and_clean(tmp_path, problem):
    made = whole(tmp_path, problem)
    assert made.first() is None
    first = made.outputs[0].tensor.clone()
    torch.testing.assert_close(first, right(problem))
    made.call()
    seen = {c["name"]: c["verdict"] for c in checks(made, first, "f32", 0.1, 11)}
    assert seen["without kernels"] == "passed" and seen["repeated"] == "passed"


def test_what_a_program_hands_on_is_watched(tmp_path, problem):
    outside = "torch.as_strided(y, (1,), (1,), y.storage_offset() + y.numel()).zero_()"
    code, _ = whole(tmp_path, problem, after=outside).first()
    assert code == "out_of_bounds"


def test_a_region_whose_result_no_kernel_of_its_program_made_is_gaming(tmp_path, problem):
    made = whole(tmp_path, problem, beside="outputs[0].copy_(inputs[0] @ inputs[1])")
    assert made.first() is None
    first = made.outputs[0].tensor.clone()
    made.call()
    assert worst(checks(made, first, "f32", 0.1, 11)) == "gaming"
