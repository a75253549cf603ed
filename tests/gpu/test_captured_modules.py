"""A module with programs in its regions, as one CUDA graph: the results of its plain calls, on any inputs."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.candidate import region_program as region_program_module  # noqa: E402
from tests.engine.evaluate.test_region_program import PROGRAM, program  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]


def region_program(tmp_path, writes=(), text=PROGRAM):
    return program(tmp_path, "cuda", text, writes)


def results(run, x, h):
    outputs = [torch.full((4, 8), float("nan"), device="cuda") for _ in range(2)]
    run([x, h], outputs)
    return outputs


def test_a_graph_gives_the_results_of_plain_calls(tmp_path):
    whole = region_program(tmp_path)
    h = torch.randn(4, 8, device="cuda")
    names = [b["tensor"] for b in whole.inputs]
    first = {"x": torch.randn(4, 8, device="cuda"), "h": h}
    graph = whole.captured([first[n] for n in names], [names.index("x")])
    assert graph is not None
    for _ in range(3):
        x = torch.randn(4, 8, device="cuda")
        outputs = results(graph, *({"x": x, "h": h}[n] for n in names))
        wanted = torch.tanh(x + h)
        assert torch.equal(outputs[0], 2 * wanted) and torch.equal(outputs[1], wanted)


def test_a_module_that_writes_its_state_is_not_captured(tmp_path):
    whole = region_program(tmp_path, writes=("h",))
    assert whole.captured([torch.randn(4, 8, device="cuda") for _ in whole.inputs], [0]) is None


def test_a_module_that_moves_much_is_not_captured(tmp_path, monkeypatch):
    monkeypatch.setattr(region_program_module, "MOST_COPIED", 64)
    whole = region_program(tmp_path)
    assert whole.captured([torch.randn(4, 8, device="cuda") for _ in whole.inputs], [0]) is None


def test_what_waits_for_the_gpu_is_not_captured_and_harms_nothing(tmp_path):
    text = PROGRAM.replace(
        "    def run(inputs, outputs):", "    def run(inputs, outputs):\n        inputs[0].sum().item()"
    )
    whole = region_program(tmp_path, text=text)
    inputs = [torch.randn(4, 8, device="cuda") for _ in whole.inputs]
    assert whole.captured(inputs, [0]) is None
    assert all(t.isfinite().all() for t in results(whole.run, *inputs)[1:])
