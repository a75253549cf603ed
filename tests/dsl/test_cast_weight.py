"""A product of a half x and an f32 weight: which operands it takes, its configurations, and what it means."""

import pytest
import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.editor.repair import repairs
from dsl.ir import DType
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules import legal
from engine.evaluate.correctness.oracle import run
from sol.attainable import predict
from sol.hardware import load

TEXT = """program p(x: {x}[{m}, {k}], w: f32[{n}, {k}], b: f32[{n}]) -> f32[{m}, {n}] {{
  y = gemm(x, w.T) {{
    compute {x}
    store f32
    {clauses}
    epilogue relu(acc + b[n])
  }}
  return y
}}"""


def text(x: str = "f16", m: int = 1024, n: int = 8192, k: int = 8192, clauses: str = "") -> str:
    return TEXT.format(x=x, m=m, n=n, k=k, clauses=clauses)


def program(source: str):
    checked = check(source)
    assert checked.ok, [d.render(source) for d in checked.diagnostics]
    return resolve(checked.program)


def mistakes(source: str) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in check(source).diagnostics]


@pytest.mark.parametrize("x", ["f16", "bf16"])
def test_cute_casts_the_weight_and_cpp_is_not_asked(x):
    p = program(text(x))
    assert p.stages[0].config.schedule == "cooperative" and p.stages[0].config.tile[1] in (64, 128)
    source = generate(p, 132).sources
    assert set(source) == {"cute"}
    assert f"transform_a=CastWeight(cutlass.{ {'f16': 'Float16', 'bf16': 'BFloat16'}[x] })" in source["cute"].text


@pytest.mark.parametrize(
    ("old", "new", "help"),
    [
        ("arch sm_90a", "arch sm_100a", "w_ = transform(w) { to f16 } first"),
        ("compute f16", "compute f16 also s = row_sum(acc)", "w_ = transform(w) { to f16 } first"),
        (
            "compute f16",
            "compute f16 backend cpp",
            "leave the backend clause out, or w_ = transform(w) { to f16 } first",
        ),
    ],
)
def test_where_nothing_casts_the_weight_the_help_casts_it_before(old, new, help):
    source = text().replace("{\n", "{\n  arch sm_90a\n", 1).replace(old, new)
    if "also" in new:
        source = source.replace("-> f32[1024, 8192]", "-> (f32[1024, 8192], f32[1024])").replace(
            "return y", "return y, s"
        )
    errors = check(source).diagnostics
    assert [e.help for e in errors] == [help]
    assert repairs(source, errors)[0] is not None  # it names an edit only where the edited text passes


def test_the_kernel_has_the_tile_and_the_cluster_of_the_transposed_result():
    p = program(text(clauses="tile 256x128x64  cluster 2x1x1"))
    written = generate(p, 132).sources["cute"].text
    assert "tile_M=128, tile_N=256, tile_K=64" in written and "cluster_M=1, cluster_N=2" in written


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gemm(x, w.T)", "gemm(x, v)"),  # rows of the weight along K
        ("w: f32[8192, 8192]", "w: f32[8192, 8200]"),
        ("x: f16", "x: f32"),
    ],
)
def test_other_operands_of_two_types_are_transformed_first(old, new):
    source = text().replace("w: f32", "v: f32[8192, 8192], w: f32").replace(old, new)
    source = source.replace("x: f16[1024, 8192]", "x: f16[1024, 8200]") if "8200" in new else source
    errors = [d for d in check(source).diagnostics if d.code in ("E107", "E202")]
    assert errors and errors[0].help


@pytest.mark.parametrize(
    ("clauses", "code"),
    [
        ("tile 128x256x64", "E203"), ("tile 128x128x128", "E203"), ("tile 72x128x64", "E203"),
        ("schedule pingpong", "E207"), ("scheduler stream_k", "E208"), ("scheduler split_k(4)", "E208"),
        ("cluster 4x2x1", "E206"), ("backend cpp", "E212"), ("tile 256x128x64  stages 9", "E204"),
    ],
)  # fmt: skip
def test_each_limit_is_said(clauses, code):
    assert code in [c for c, _ in mistakes(text(clauses=clauses))]


def test_a_reduced_result_needs_a_cast_apart():
    source = text().replace("relu(acc + b[n])", "row_sum(acc + b[n])").replace("-> f32[1024, 8192]", "-> f32[1024]")
    assert any("one whole result" in message for _, message in mistakes(source))


def test_a_guard_checks_no_weight_that_is_cast_as_it_is_read():
    source = """program p(x: f32[256, 512], w: f32[256, 512]) -> f32[256, 256] {
  guard f32
  h = transform(x) { to f16 }
  y = gemm(h, w.T) { compute f16  store f32 }
  return y
}"""
    assert any("casts w as it reads it" in message for _, message in mistakes(source))


@pytest.mark.parametrize("x", ["f16", "bf16"])
def test_the_weight_is_rounded_to_the_type_of_x(x):
    p = program(text(x, 64, 96, 64))
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[x]
    g = torch.Generator().manual_seed(0)
    a, w, b = (torch.randn(s, generator=g) for s in ((64, 64), (96, 64), (96,)))
    (y,) = run(p, [a.to(dtype), w, b])
    expected = torch.relu(a.to(dtype).double() @ w.to(dtype).double().T + b.double())
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


def test_it_is_expected_to_save_the_cast_where_x_has_few_rows():
    apart = """program p(x: f16[16, 8192], w: f32[8192, 8192]) -> f32[16, 8192] {
  v = transform(w) { to f16 }
  y = gemm(x, v.T) { store f32 }
  return y
}"""
    hw = load("h200")
    own = program(text(m=16))
    assert legal.program_problem(own, own.stages[0]).casts
    assert own.stages[0].config.compute is DType.F16
    assert predict(own, hw).ms < 0.7 * predict(program(apart), hw).ms


def test_it_survives_printing():
    p = check(text()).program
    assert check(to_text(p)).program == p
