"""What stays PyTorch beside programs, compiled by the real Inductor for a GPU: right, also as a CUDA graph."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.candidate.region_program import RegionProgram, compile_rest  # noqa: E402
from engine.evaluate.compiled_rest import CompiledRest  # noqa: E402
from sol.graph import Op, OpGraph, Tensor  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]
PROGRAM = """
import torch
def load(artifact):
    def run(inputs, outputs):
        torch.tanh(inputs[0], out=outputs[0])
    return run
"""


@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_the_results_are_pytorchs_and_a_graph_gives_them_too(cls, tmp_path):
    kinds = {"x": "input", "a": "intermediate", "b": "intermediate", "c": "intermediate", "y": "intermediate"}
    tensors = {n: Tensor(n, (64, 128), "f32", kind) for n, kind in kinds.items()}
    ops = (
        Op("a", "tanh", ("x",), ("a",)), Op("b", "roll", ("a",), ("b",), {"shifts": [1], "dims": [0]}),
        Op("c", "logcumsumexp", ("b",), ("c",), {"dim": 1}), Op("y", "softmax", ("c",), ("y",), {"dim": -1}),
    )  # fmt: skip
    graph, path = OpGraph(tensors, ops, ("x",), ("y",)), tmp_path / "generated.py"
    path.write_text(PROGRAM, encoding="utf-8")
    one = {"name": "x", "tensor": "x", "shape": [64, 128], "dtype": "f32", "transposed": False}
    placed = [{"ops": ["a"], "inputs": [one], "outputs": [{**one, "name": "a", "tensor": "a"}], "path": str(path)}]
    rest = CompiledRest()
    answer = compile_rest(graph, placed, "cuda", cls, rest)
    assert (answer.runs, answer.operations, answer.refused) == (1, 3, ())
    plain, fused = RegionProgram(graph, placed, "cuda", cls), RegionProgram(graph, placed, "cuda", cls, rest)
    x, moving = torch.randn(64, 128, device="cuda"), [0]
    replayed = fused.captured([x], moving)
    assert replayed is not None
    for _ in range(3):
        x, results = torch.randn(64, 128, device="cuda"), []
        for run in (plain.run, fused.run, replayed):
            results.append(torch.full((64, 128), float("nan"), device="cuda"))
            run([x], [results[-1]])
            plain.deliver(), fused.deliver()
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], atol=1e-3 if cls == "f16" else 1e-6, rtol=1e-2)
