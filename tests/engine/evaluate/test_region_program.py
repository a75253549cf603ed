"""A module with programs in its regions, as the process of candidates runs it: what it writes is copied in its time."""

from dataclasses import replace

import torch

from engine.evaluate.candidate.region_program import RegionProgram
from sol.graph import Op, OpGraph, Tensor

PROGRAM = """
import torch
def load(artifact):
    def run(inputs, outputs):
        torch.tanh(inputs[0] + inputs[1], out=outputs[0])
    run.tripped = lambda: None
    return run
"""


def hidden_state():
    """y = 2 tanh(x + h), and h becomes tanh(x + h)."""
    kinds = {"x": "input", "h": "buffer", "s": "intermediate", "t": "intermediate", "y": "intermediate"}
    tensors = {n: Tensor(n, (4, 8), "f32", kind, "h" if n == "h" else "") for n, kind in kinds.items()}
    ops = (
        Op("s", "add", ("x", "h"), ("s",), {"alpha": 1}),
        Op("t", "tanh", ("s",), ("t",)),
        Op("y", "mul", ("t",), ("y",), {"other": 2}),
    )
    return OpGraph(tensors, ops, ("x",), ("y", "t"), ("h",))


def program(tmp_path, device="cpu", text=PROGRAM, writes=("h",)):
    path = tmp_path / "generated.py"
    path.write_text(text, encoding="utf-8")
    bindings = [{"name": n, "tensor": n, "shape": [4, 8], "dtype": "f32", "transposed": False} for n in ("x", "h")]
    out = {"name": "t", "tensor": "t", "shape": [4, 8], "dtype": "f32"}
    placed = {"ops": ["s", "t"], "inputs": bindings, "outputs": [out], "path": str(path)}
    return RegionProgram(replace(hidden_state(), writes=writes), [placed], device, "tf32")


def test_a_written_tensor_has_its_new_value_without_a_delivery_behind_the_timed_call(tmp_path):
    whole = program(tmp_path)
    values = {n: torch.randn(4, 8) for n in ("x", "h")}
    y, h = torch.full((4, 8), float("nan")), torch.full((4, 8), float("nan"))
    whole.run([values[b["tensor"]] for b in whole.inputs], [y, h])
    wanted = torch.tanh(values["x"] + values["h"])
    assert torch.equal(h, wanted)  # the copy into the state is in the call
    assert bool(y.isnan().all())  # a result of PyTorch stays where it is until it is delivered
    whole.deliver()
    assert torch.equal(y, 2 * wanted)


def test_a_call_leaves_the_starting_state_as_it_is(tmp_path):
    whole = program(tmp_path)
    values = {n: torch.randn(4, 8) for n in ("x", "h")}
    start = values["h"].clone()
    results = [[torch.empty(4, 8) for _ in range(2)] for _ in range(2)]
    for outputs in results:
        whole.run([values[b["tensor"]] for b in whole.inputs], outputs)
    assert torch.equal(values["h"], start) and torch.equal(results[0][1], results[1][1])


def test_pytorch_is_timed_on_a_buffer_that_the_program_does_without(tmp_path):
    """A causal mask is such a buffer: the program says `tril`, PyTorch reads it."""
    path = tmp_path / "generated.py"
    path.write_text(PROGRAM.replace("inputs[0] + inputs[1]", "inputs[0]"), encoding="utf-8")
    x = {"name": "x", "tensor": "x", "shape": [4, 8], "dtype": "f32", "transposed": False}
    out = {"name": "t", "tensor": "t", "shape": [4, 8], "dtype": "f32"}
    graph = replace(hidden_state(), outputs=("y",), writes=())
    placed = {"ops": ["s", "t"], "inputs": [x], "outputs": [out], "path": str(path)}
    whole = RegionProgram(graph, [placed], "cpu", "tf32")
    assert [b["tensor"] for b in whole.inputs] == ["x"]

    class Timer:
        def sample(self, call):
            call()
            return 1.0

    own = {n: torch.randn(4, 8) for n in ("x", "h")}
    assert whole.times([own["x"]], Timer(), own) == {"region_ms": 1.0, "covered_ms": 1.0, "region_eager_ms": 1.0}


def test_the_copies_are_in_the_expected_time():
    from engine.devices.parts import expected_ms
    from sol.hardware import load

    graph = hidden_state()
    large = replace(graph, tensors={n: replace(t, shape=(8192, 8192)) for n, t in graph.tensors.items()})
    returned = replace(large, outputs=large.returned, writes=())
    hw = load("h200")
    more = expected_ms(large, [], hw, "tf32")[0] - expected_ms(returned, [], hw, "tf32")[0]
    assert more > 2 * large.tensors["t"].bytes / hw.bandwidth * 1e3


def test_what_a_program_reads_with_gaps_is_copied_in_the_expected_time():
    from dsl.check.program import check
    from engine.devices.parts import expected_ms
    from sol.hardware import load

    kinds = {"x": "input", "half": "intermediate", "y": "intermediate"}
    tensors = {n: Tensor(n, (8192, 4096), "f32", kind) for n, kind in kinds.items()}
    tensors |= {"x": replace(tensors["x"], shape=(8192, 8192)), "half": replace(tensors["half"], strides=(8192, 1))}
    cut = Op("half", "slice", ("x",), ("half",), {"dim": 1, "start": 0, "end": 4096, "step": 1})
    graph = OpGraph(tensors, (cut, Op("y", "tanh", ("half",), ("y",))), ("x",), ("y",))
    dense = replace(graph, tensors=tensors | {"half": replace(tensors["half"], strides=())})
    text = "program p(a: f32[8192, 4096]) -> f32[8192, 4096] {\n  y = map(a) { epilogue tanh(acc) }\n  return y\n}"
    placed, hw = [(["y"], check(text).program)], load("h200")
    (whole, alone), (_, same) = (expected_ms(g, placed, hw, "tf32") for g in (graph, dense))
    assert alone == same and whole - alone > 2 * tensors["half"].bytes / hw.bandwidth * 1e3
    assert expected_ms(dense, placed, hw, "tf32")[0] == alone


def test_without_a_gpu_there_is_no_graph(tmp_path):
    whole = program(tmp_path)
    assert whole.captured([torch.randn(4, 8) for _ in whole.inputs], [0]) is None
