"""What a guarded program computes again on the tensor cores, and which of its own products it leaves out then."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.check.program import check
from dsl.guard import rescue
from dsl.ir import DType, Program
from dsl.lower import Refusal
from dsl.lower.cute import lower
from dsl.lower.cute.gemm import gemm_text
from dsl.lower.plan.rescue import LEFT_OUT_FLOPS, chosen, in_tf32, leaves_out, on_tensor_cores
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules.problem import checks_before, program_problem
from engine.evaluate.correctness import oracle
from engine.suite.cases import cases
from sol.attainable import predict
from sol.hardware import load
from tests.dsl.lower.cute.gated import CHAIN, texts

GUARDED = {
    c.name: c.text.replace("  arch sm_90a\n", "  arch sm_90a\n  guard f32\n") for c in cases() if "f16" in c.name
}


def program(text: str) -> Program:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return resolve(checked.program)


def product(m: int, n: int, k: int, operands: str = "xh, wh.T", x: str = "", w: str = "", clauses: str = "") -> Program:
    return program(f"""program p(x: f32[{x or f"{m}, {k}"}], w: f32[{w or f"{n}, {k}"}]) -> f32[{m}, {n}] {{
  guard f32
  xh = transform(x) {{ to f16 }}
  wh = transform(w) {{ to f16 }}
  y = gemm({operands}) {{ store f32  {clauses} }}
  return y
}}""")


CONV = """program p(x: f32[8, {c}, 56, 56], w: f32[{w}], v: f32[64, 128, 3, 3]) -> f32[8, 64, {size}] {{
  guard f32
  xt = transform(x) {{ layout nhwc  to f16 }}
  wt = transform(w) {{ layout nhwc  to f16 }}
  vt = transform(v) {{ layout nhwc  to f16 }}
  h = {op}(xt, wt) {{ store f16 nhwc  epilogue relu(acc) }}
  y = conv2d(h, vt) {{ store f32 nchw }}
  return y
}}"""


def test_operands_along_k_are_read_as_they_lie_and_the_result_is_the_programs_own():
    again = chosen(product(2048, 2048, 1024))
    (y,) = again.stages
    assert (y.name, y.a.name, y.b.name) == ("y", "x", "w") and y.config.compute is DType.TF32
    assert None not in (y.config.tile, y.config.cluster, y.config.schedule, y.config.scheduler, y.config.stages)


def test_operands_across_k_are_copied_first():
    again = chosen(product(2048, 2048, 1024, "xh.T, wh", "1024, 2048", "1024, 2048"))
    copies, y = again.stages[:-1], again.stages[-1]
    assert [(c.x.name, c.permute, c.type.shape) for c in copies] == [
        ("x", (1, 0), (2048, 1024)),
        ("w", (1, 0), (2048, 1024)),
    ]
    assert (y.a.name, y.a.transposed, y.b.name, y.b.transposed) == (copies[0].name, False, copies[1].name, True)


def test_a_matrix_times_itself_is_copied_for_the_side_that_needs_it():
    p = program("""program p(x: f32[2048, 2048]) -> f32[2048, 2048] {
  guard f32
  xh = transform(x) { to f16 }
  y = gemm(xh, xh) { store f32 }
  return y
}""")
    copy, y = chosen(p).stages
    assert (y.a.name, y.b.name, y.b.transposed) == ("x", copy.name, True)


@pytest.mark.parametrize(
    ("m", "n", "k", "operands", "clauses"),
    [
        (2048, 2048, 1023, "xh.T, wh", ""),  # whose copies would have rows of 4,092 bytes
        (2048, 2047, 1024, "xh, wh.T", "epilogue row_sum(acc)"),  # whose sums are stored, for a stage that adds rows
    ],
)
def test_rows_that_tma_does_not_move_take_a_product_to_the_cuda_cores(m, n, k, operands, clauses):
    x, w = ((k, m), (k, n)) if operands == "xh.T, wh" else ((m, k), (n, k))
    result = f"{m}" if clauses else f"{m}, {n}"
    p = program(f"""program p(x: f32[{x[0]}, {x[1]}], w: f32[{w[0]}, {w[1]}]) -> f32[{result}] {{
  guard f32
  xh = transform(x) {{ to f16 }}
  wh = transform(w) {{ to f16 }}
  y = gemm({operands}) {{ store f32  {clauses} }}
  return y
}}""")
    assert chosen(p) == rescue(p) and "Y_F32 = OwnStage(" in lower(p).text.replace("Y_WHOLE", "Y")


def test_what_the_second_pipeline_is_refused_in_tf32_it_does_in_f32(monkeypatch):
    p = product(2048, 2048, 1024)
    monkeypatch.setattr(gemm_text, "plan", _refusing(gemm_text.plan))
    text = lower(p).text
    assert "Y = GemmStage(" in text and "Y_F32 = OwnStage(" in text


def _refusing(plan):
    def refusing(program: Program, stage, gate: bool | None = None):
        if gate:
            raise Refusal("cute-alignment", "a reason that only the back end knows", None)
        return plan(program, stage, gate)

    return refusing


def test_a_chain_of_convolutions_keeps_channels_last():
    again = chosen(program(CONV.format(c=64, w="128, 64, 3, 3", size="52, 52", op="conv2d")))
    assert [s.name for s in again.stages] == ["xt", "wt", "vt", "h", "y"]
    assert all(s.type.dtype is DType.F32 for s in again.stages) and all(map(on_tensor_cores, again.stages[-2:]))
    assert [s.type.layout for s in again.stages] == ["nhwc"] * 4 + ["nchw"]


def test_a_transposed_convolution_takes_all_of_it_to_the_cuda_cores():
    p = program(CONV.format(c=64, w="64, 128, 3, 3", size="56, 56", op="conv_transpose2d"))
    assert in_tf32(p) is None and chosen(p) == rescue(p)


def test_what_takes_microseconds_stays_on_the_cuda_cores():
    small = product(128, 128, 128)
    assert in_tf32(small) is not None and chosen(small) == rescue(small)


def test_only_large_products_are_left_out():
    side = 4096
    k = int(LEFT_OUT_FLOPS / side / side / 2) // 64 * 64
    large, small = product(side, side, k + 64), product(side, side, k - 64)
    assert leaves_out(large, large.stages[-1]) and not leaves_out(small, small.stages[-1])
    assert not any(leaves_out(large, s) for s in large.stages[:-1])
    assert not leaves_out(replace(large, guard=False), large.stages[-1])


def test_what_may_set_the_flag_is_not_left_out_by_it():
    p = program(CHAIN)
    assert [s.name for s in p.stages if leaves_out(p, s)] == ["n"]  # h looks at what it stores


@pytest.mark.parametrize("name", [*GUARDED, *texts()])
def test_the_program_in_tf32_is_one_that_anybody_may_write(name):
    checked = check((GUARDED | texts())[name])
    again = in_tf32(resolve(checked.program)) if checked.ok else None
    if again is None:
        return
    written = check(to_text(again))
    assert written.ok and resolve(written.program).stages == resolve(again).stages
    assert lower(resolve(again)).text


SMALL = {
    "product": ("x: f32[24, 40], w: f32[40, 32]", "f32[24, 32]", "xh = transform(x) { to f16 }\n"
                "  wh = transform(w) { to f16 }\n  y = gemm(xh, wh) { store f32  epilogue relu(acc) }"),
    "reduced": ("x: f32[3, 24, 40], w: f32[32, 40]", "f32[3, 32]", "xh = transform(x) { to f16 }\n"
                "  wh = transform(w) { to f16 }\n  y = gemm(xh, wh.T) { store f32  epilogue col_sum(acc * 2.0) }"),
    "convolution": ("x: f32[2, 16, 9, 8], w: f32[24, 16, 3, 3]", "f32[2, 24, 7, 6]",
                    "xt = transform(x) { layout nhwc  to f16 }\n  wt = transform(w) { layout nhwc  to f16 }\n"
                    "  y = conv2d(xt, wt) { store f32 nchw  epilogue relu(acc) }"),
}  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(SMALL)), st.integers(0, 1000))
def test_it_means_what_the_pipeline_in_f32_means_but_for_the_rounding(name, seed):
    params, result, body = SMALL[name]
    p = program(f"program p({params}) -> {result} {{\n  guard f32\n  {body}\n  return y\n}}")
    generator = torch.Generator().manual_seed(seed)
    inputs = [1e6 * torch.randn(t.type.shape, generator=generator) for t in p.params]
    again = in_tf32(p)
    assert any(map(on_tensor_cores, again.stages))
    (have,), (want,) = oracle.run(again, inputs), oracle.run(rescue(p), inputs)
    assert 0 < (have - want).norm() <= 2e-3 * want.norm()


IMAGES = """program p(x: f32[64, 8, 32, 64, 64], w: f32[{filters}, 8, 3, 3, 3]) -> f32[64, {filters}, 30, 62, 62] {{
  guard f32
  y = conv3d(x, w) {{ compute f16 }}
  return y
}}"""


@pytest.mark.parametrize(("filters", "images", "before"), [(32, 64, True), (8, 64, False), (32, 2, False)])
def test_images_are_checked_before_a_product_beside_which_their_read_takes_little(filters, images, before):
    p = program(IMAGES.format(filters=filters).replace("[64, ", f"[{images}, "))
    (y,) = p.stages
    assert checks_before(p, y) == leaves_out(p, y) == before
    assert program_problem(p, y).watched == (not before)
    plain = replace(p, guard=False)
    assert not checks_before(plain, y) and not program_problem(plain, y).watched


def test_the_model_counts_the_read_that_checks_images():
    p = program(IMAGES.format(filters=32))
    hw = load("h200")
    guarded, plain = (predict(one, hw).stages[0].ms for one in (p, replace(p, guard=False)))
    assert 0.05 < guarded - plain < 0.09  # 268 MB
