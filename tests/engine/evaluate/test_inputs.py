"""The harness's own data: the same in every process, of the right size, and exact where it says so."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dsl.check.program import check
from engine.evaluate.correctness import inputs
from engine.strategies.planner.lowering import program_graph
from sol.graph import Op, OpGraph, Tensor


def graph(tensors, ops, outputs):
    table = {t.name: t for t in tensors}
    return OpGraph(table, tuple(ops), tuple(t.name for t in tensors if t.kind == "input"), outputs)


def linear(m=64, k=512, n=256, dtype="f32"):
    return graph(
        [
            Tensor("x", (m, k), dtype, "input"),
            Tensor("w", (n, k), dtype, "parameter", "fc.weight"),
            Tensor("b", (n,), dtype, "parameter", "fc.bias"),
            Tensor("y", (m, n), dtype, "intermediate"),
        ],
        [Op("y", "linear", ("x", "w", "b"), ("y",))],
        ("y",),
    )


def bmm(b=4, m=32, k=128, n=64, transposed=False):
    second = (b, n, k) if transposed else (b, k, n)
    tensors = [Tensor("a", (b, m, k), "f32", "input"), Tensor("c", second, "f32", "input")]
    ops = []
    if transposed:
        tensors.append(Tensor("t", (b, k, n), "f32", "intermediate"))
        ops.append(Op("t", "transpose", ("c",), ("t",), {"dim0": 1, "dim1": 2}))
    tensors.append(Tensor("y", (b, m, n), "f32", "intermediate"))
    ops.append(Op("y", "bmm", ("a", "t" if transposed else "c"), ("y",)))
    return graph(tensors, ops, ("y",))


def test_two_processes_make_the_same_bits():
    code = (
        "import hashlib, torch; from engine.evaluate.correctness.inputs import fill\n"
        "x = [fill((33, 65), d, f, 7, 'w') for d in ('f32', 'f16', 'bf16') for f in ('normal', 'closed_form')]\n"
        "print(hashlib.sha256(b''.join(t.view(torch.uint8).numpy().tobytes() for t in x)).hexdigest())"
    )
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(outputs) == 1 and len(outputs.pop()) == 65


def test_seed_name_and_family_each_change_the_data():
    base = inputs.fill((64, 64), "f32", "normal", 1, "x")
    assert torch.equal(base, inputs.fill((64, 64), "f32", "normal", 1, "x"))
    for other in (("normal", 2, "x"), ("normal", 1, "y"), ("large", 1, "x")):
        assert not torch.equal(base, inputs.fill((64, 64), "f32", *other))


@pytest.mark.parametrize("family, scale", [("normal", 1.0), ("large", 128.0), ("tiny", 2.0**-10)])
def test_products_have_the_magnitude_of_their_family(family, scale):
    tensors = inputs.fill_graph(linear(), family, 3)
    y = tensors["x"] @ tensors["w"].T
    assert abs(float(y.mean())) < 0.05 * scale  # zero-mean
    assert 0.9 * scale < float(y.std()) < 1.1 * scale
    assert torch.isfinite(y.to(torch.float16)).all()


@pytest.mark.parametrize("make", [linear, bmm])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_closed_form_is_exact_in_every_class(make, dtype):
    g = make()
    tensors = inputs.fill_graph(g, "closed_form", 5)
    a, b = (tensors[n] for n in g.ops[-1].inputs[:2])
    b = b.T if make is linear else b
    exact = a.double() @ b.double()
    assert torch.equal(exact, exact.round())
    assert 0 < exact.abs().max() < 256
    assert torch.equal(exact.to(dtype).double(), exact)
    assert torch.equal((a.to(dtype).float() @ b.to(dtype).float()).double(), exact)


def test_the_second_side_of_a_product_of_inputs_is_found_through_a_transpose():
    for transposed in (False, True):
        role = inputs.roles(bmm(transposed=transposed))
        assert (role["a"].kind, role["c"].kind, role["c"].k) == ("activation", "weight", 128)
        assert role["a"].rows and role["c"].rows  # the batch is in front of both


def test_the_weights_of_a_recurrent_program_are_no_activations():
    text = (Path(__file__).parents[3] / "dsl/examples/lstm.ucutlass").read_text()
    role = inputs.roles(program_graph.graph_of(check(text).program))
    assert [role[n].k for n in ("w", "wr", "u", "ur")] == [128, 128, 256, 256]
    assert {role[n].kind for n in ("w", "wr", "u", "ur")} == {"weight"}
    assert {role[n].kind for n in ("x", "h0", "c0")} == {"activation"}


def test_rows_shorten_what_has_rows_and_nothing_else():
    square = graph(
        [
            Tensor("a", (64, 64), "f32", "input"),
            Tensor("b", (64, 64), "f32", "input"),
            Tensor("r", (64, 64), "f32", "input"),
            Tensor("v", (64,), "f32", "input"),
            Tensor("m", (64, 64), "f32", "intermediate"),
            Tensor("y", (64, 64), "f32", "intermediate"),
        ],
        [Op("m", "matmul", ("a", "b"), ("m",)), Op("y", "add", ("m", "r"), ("y",))],
        ("y",),
    )
    tensors = inputs.fill_graph(square, "normal", 0, rows=8)
    assert {n: tuple(t.shape) for n, t in tensors.items()} == {"a": (8, 64), "b": (64, 64), "r": (8, 64), "v": (64,)}


def test_indices_buffers_and_constants_keep_the_module_s_own_values():
    g = graph(
        [
            Tensor("ids", (4, 8), "i64", "input"),
            Tensor("table", (100, 16), "f16", "parameter", "table"),
            Tensor("var", (16,), "f32", "buffer", "var"),
        ],
        [],
        ("table",),
    )
    assert set(inputs.fill_graph(g, "normal", 0)) == {"table"}
    assert inputs.fill_graph(g, "normal", 0)["table"].dtype == torch.float16
    with pytest.raises(ValueError, match="keep the module's own"):
        inputs.fill((4,), "i64", "normal", 0, "ids")
    with pytest.raises(ValueError, match="cannot be generated"):
        inputs.fill((4,), "f32", "own", 0, "x")


def test_int8_is_made_only_where_it_is_multiplied_and_fp8_saturates():
    tensors = [
        Tensor("a", (32, 64), "i8", "input"), Tensor("w", (64, 16), "i8", "parameter"),
        Tensor("ids", (32,), "i8", "input"), Tensor("y", (32, 16), "i32", "intermediate"),
    ]  # fmt: skip
    g = graph(tensors, [Op("y", "_int_mm", ("a", "w"), ("y",))], ("y",))
    for family in ("normal", "large", "tiny", "closed_form"):
        values = inputs.fill_graph(g, family, 3)
        assert set(values) == {"a", "w"} and values["a"].dtype is torch.int8
        assert 0 < values["w"].abs().max() <= 127
    narrow = inputs.fill((4096,), "e4m3", "large", 1, "x")
    assert narrow.dtype is torch.float8_e4m3fn and narrow.float().abs().max() == 448


def test_the_sizes_of_groups_add_up_to_the_rows():
    tensors = [
        Tensor("a", (128, 64), "f16", "input"), Tensor("w", (8, 64, 32), "f16", "input"),
        Tensor("sizes", (8,), "i32", "input"), Tensor("y", (128, 32), "f16", "intermediate"),
    ]  # fmt: skip
    g = graph(tensors, [Op("y", "_grouped_mm", ("a", "w", "sizes"), ("y",))], ("y",))
    seen = set()
    for seed in range(20):
        values = inputs.fill_graph(g, "normal", seed, rows=16)  # a grouped product has no fewer rows
        assert values["sizes"].dtype is torch.int32 and int(values["sizes"].sum()) == 128
        assert values["a"].shape == (128, 64) and int(values["sizes"].min()) >= 0
        seen.add(tuple(values["sizes"].tolist()))
    assert len(seen) > 10


def test_powers_leave_the_terms_of_every_sum_as_they_are():
    values, plain = (inputs.fill_graph(linear(), f, 5) for f in ("powers", "normal"))
    x, w = values["x"], values["w"]
    assert x.abs().max() / x.abs()[x != 0].min() > 2.0**30 and w.isfinite().all()
    terms = x[0] * w[0]
    assert 2.0**-20 < terms.abs().median() < 1.0 and torch.equal(values["b"].abs() > 0, plain["b"].abs() > 0)
    exact = x.double() @ w.double().t()
    assert ((x @ w.t()) - exact).norm() / exact.norm() < 1e-6  # f32 is as good as on `normal`
    narrow = (x.half() @ w.half().t()).double()
    assert not narrow.isfinite().all() or (narrow - exact).norm() / exact.norm() > 0.1


def test_terms_are_exact_in_tf32_where_they_cancel_and_have_one_term_elsewhere():
    values = inputs.fill_graph(linear(), "terms", 5)
    x, w = values["x"], values["w"]
    assert ((x[0::2] != 0).sum(1) <= 1).all() and ((x[1::2] != 0).sum(1) <= 8).all()
    assert not values["b"].any() and torch.equal(w[:, 0::2], w[:, 1::2])
    exact = x.double() @ w.double().t()
    assert torch.equal((x @ w.t()).double()[1::2], exact[1::2])
    assert torch.equal((x[1::2].bfloat16().double() @ w.double().t()), exact[1::2]) is False
    assert exact[1::2].abs().max() < 0.05 < exact[0::2].abs().max()  # eight terms of up to 1 cancel


def test_a_bmm_of_inputs_and_a_convolution_have_operands_too():
    from engine.evaluate.correctness import operands

    assert operands.families(bmm()) == ("powers", "terms")
    (product,) = operands.products(bmm(transposed=True))
    assert (product.first, product.axis, product.second, product.other_axis) == ("a", -1, "c", -1)
    image = graph(
        [
            Tensor("x", (2, 8, 5, 5), "f32", "input"), Tensor("w", (4, 8, 3, 3), "f32", "parameter", "c.weight"),
            Tensor("y", (2, 4, 3, 3), "f32", "intermediate"),
        ],
        [Op("y", "conv2d", ("x", "w"), ("y",))],
        ("y",),
    )  # fmt: skip
    assert operands.families(image) == ("powers",)
    values = inputs.fill_graph(image, "powers", 3)
    y = torch.nn.functional.conv2d(values["x"].double(), values["w"].double())
    assert 0.1 < y.std() < 10


def test_parts_show_an_error_that_a_large_row_hides():
    from engine.evaluate.correctness import operands
    from engine.evaluate.correctness.tolerance import compare, compare_in_parts

    right = torch.randn(8, 64)
    right[-1] *= 1e6
    wrong = right.clone()
    wrong[:-1] = 0
    assert compare(wrong, right).error < 1e-5
    assert compare_in_parts(wrong, right, operands.parts("uneven", 8)).error > 0.5
