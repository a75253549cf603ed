"""A graph with programs in the places of its regions computes the module: order, types, rows, where results lie."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.candidate.aten import UnknownOp  # noqa: E402
from engine.evaluate.candidate.region_runtime import Place, RegionRuntime  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402


def chain():
    """y = cumsum(x @ w) * 2 + b"""
    g = Builder()
    x, w = g.input("x", (8, 16)), g.parameter("w", (16, 4))
    h = g.op("mm", [x, w], (8, 4))
    s = g.op("cumsum", [h], (8, 4), dim=0, dtype=None)
    d = g.op("mul", [s], (8, 4), other=2)
    return g.graph(g.op("add", [d, g.parameter("b", (4,))], (8, 4), alpha=1))


def binding(tensor, shape, dtype="f32"):
    return {"name": tensor, "tensor": tensor, "shape": list(shape), "dtype": dtype}


def values(rows=8):
    torch.manual_seed(0)
    return {"x": torch.randn(rows, 16), "w": torch.randn(16, 4), "b": torch.randn(4)}


def right(v):
    return torch.cumsum(v["x"] @ v["w"], 0) * 2 + v["b"]


def product(meaning=None, run=None):
    inputs, outputs = [binding("x", (8, 16)), binding("w", (16, 4))], [binding("mm_0", (8, 4))]
    return Place(frozenset(["mm_0"]), inputs, outputs, run, meaning)


def tail(meaning=None, run=None):
    inputs, outputs = [binding("cumsum_1", (32,)), binding("b", (4,))], [binding("add_3", (8, 4))]
    return Place(frozenset(["mul_2", "add_3"]), inputs, outputs, run, meaning)


def test_programs_stand_in_their_places_whatever_order_they_are_given_in():
    calls = []

    def first(x):
        calls.append("product")
        return [x[0] @ x[1]]

    def second(x):
        calls.append("tail")
        assert x[0].shape[0] == 32 and x[0].is_contiguous()  # as its binding sees the tensor
        return [x[0].reshape(-1, 4) * 2 + x[1]]

    module = RegionRuntime(chain(), [tail(second), product(first)], "cpu", "f32")
    torch.testing.assert_close(module.run(values())["add_3"], right(values()))
    assert calls == ["product", "tail"]


def test_a_wrong_program_gives_a_wrong_module():
    module = RegionRuntime(chain(), [product(lambda x: [x[0] @ x[1] + 1])], "cpu", "f32")
    assert not torch.allclose(module.run(values())["add_3"], right(values()))


def test_machine_code_writes_into_the_modules_own_result():
    def write(inputs, outputs):
        outputs[0].copy_(inputs[0].reshape(8, 4) * 2 + inputs[1])

    into = torch.empty(8, 4)
    result = RegionRuntime(chain(), [tail(run=write)], "cpu", "f32").run(values(), {"add_3": into})["add_3"]
    assert result.data_ptr() == into.data_ptr()
    torch.testing.assert_close(into, right(values()))


def test_fewer_rows_run_through_the_same_steps():
    module = RegionRuntime(chain(), [product(lambda x: [x[0] @ x[1]])], "cpu", "f32")
    torch.testing.assert_close(module.run(values(3))["add_3"], right(values(3)))


def test_under_autocast_a_program_still_reads_the_type_that_it_was_written_for():
    seen = []

    def meaning(x):
        seen.append(x[0].dtype)
        assert not torch.is_autocast_enabled("cpu")
        return [x[0].reshape(8, 4) * 2 + x[1]]

    result = RegionRuntime(chain(), [tail(meaning)], "cpu", "bf16").run(values())["add_3"]
    assert seen == [torch.float32] and result.dtype is torch.float32
    torch.testing.assert_close(result, right(values()), rtol=5e-2, atol=5e-2)


def test_what_pytorch_hands_on_under_autocast_keeps_its_type_until_it_is_a_result():
    g = Builder()
    graph = g.graph(g.op("mm", [g.input("x", (8, 16)), g.parameter("w", (16, 4))], (8, 4)))
    module, inputs = RegionRuntime(graph, [], "cpu", "bf16"), {"x": torch.randn(8, 16), "w": torch.randn(16, 4)}
    assert module.play(inputs)["mm_0"].dtype is torch.bfloat16 and module.run(inputs)["mm_0"].dtype is torch.float32


def test_a_program_reads_what_lies_as_it_asks_in_place_and_the_rest_as_a_dense_copy():
    def seen(x):
        read.append(x)
        return [x[0] @ x[1]]

    read, plain = [], values()
    RegionRuntime(chain(), [product(seen)], "cpu", "f32").run(plain)
    assert read[-1][0].data_ptr() == plain["x"].data_ptr()
    across = plain | {"x": plain["x"].t().contiguous().t()}
    result = RegionRuntime(chain(), [product(seen)], "cpu", "f32").run(across)["add_3"]
    assert read[-1][0].is_contiguous() and read[-1][0].data_ptr() != across["x"].data_ptr()
    torch.testing.assert_close(result, right(values()))


def test_precision_switches_are_as_before_afterwards():
    before = torch.get_float32_matmul_precision()
    RegionRuntime(chain(), [], "cpu", "tf32").run(values())
    assert torch.get_float32_matmul_precision() == before


def test_the_programs_alone_can_be_called_with_what_they_read():
    def write(inputs, outputs):
        outputs[0].copy_(inputs[0] @ inputs[1])
        calls.append(outputs[0])

    calls = []
    (one,), tensors = RegionRuntime(chain(), [product(run=write)], "cpu", "f32").alone(values())
    assert one[0].ops == {"mm_0"}
    one[1]()
    torch.testing.assert_close(calls[-1], values()["x"] @ values()["w"])
    torch.testing.assert_close(tensors["cumsum_1"], torch.cumsum(values()["x"] @ values()["w"], 0))


def test_what_a_program_leaves_out_is_no_number_that_was_right_before():
    watched = []
    results = RegionRuntime(chain(), [product(run=lambda inputs, outputs: None)], "cpu", "f32").run(
        values(), {}, watched
    )
    assert torch.isnan(results["add_3"]).all()
    (guard,) = watched
    assert guard.unwritten() == 32 and guard.intact()


def test_regions_that_wait_for_each_other_are_an_error():
    around = Place(frozenset(["mm_0", "mul_2"]), [binding("x", (8, 16)), binding("cumsum_1", (8, 4))],
                   [binding("mm_0", (8, 4)), binding("mul_2", (8, 4))], meaning=lambda x: x)  # fmt: skip
    with pytest.raises(ValueError, match="wait for each other"):
        RegionRuntime(chain(), [around], "cpu", "f32")


def test_an_operation_that_may_not_run_beside_regions_is_named():
    g = Builder()
    graph = g.graph(g.op("from_file", [g.input("x", (8, 16))], (8, 16)))
    with pytest.raises(UnknownOp, match="from_file"):
        RegionRuntime(graph, [], "cpu", "f32")
