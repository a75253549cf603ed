"""What `auto` becomes where `cpp` has a kernel of its own for a product: splits of K, triangles, norms in registers."""

from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Scheduler
from dsl.resolve import resolve
from dsl.rules import legal, normalized


def config(text: str):
    checked = check(text)
    assert checked.ok, checked.diagnostics
    return resolve(checked.program).stages[0].config


def product(m: int, n: int, k: int, clauses: str = "", element: str = "f32", compute: str = "tf32"):
    head = f"program p(a: {element}[{m}, {k}], b: {element}[{n}, {k}]) -> {element}[{m}, {n}]"
    return config(f"{head} {{ y = gemm(a, b.T) {{ compute {compute} {clauses} }} return y }}")


@pytest.mark.parametrize(("element", "compute"), [("f32", "tf32"), ("f16", "f16")])
def test_few_tiles_of_a_deep_k_are_split_until_they_fill_the_device_once(element, compute):
    c = product(256, 256, 524288, element=element, compute=compute)
    tiles = -(-256 // c.tile[0]) * -(-256 // c.tile[1])
    assert c.scheduler.kind == "split_k" and 100 <= tiles * c.scheduler.splits <= 132


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 65536), (256, 256, 512)])
def test_many_tiles_or_a_short_k_are_not_split(m, n, k):
    assert product(m, n, k).scheduler == Scheduler("persistent")


def test_a_result_that_is_reduced_is_not_split():
    head = "program p(a: f32[256, 65536], b: f32[256, 65536]) -> f32[256]"
    c = config(f"{head} {{ y = gemm(a, b.T) {{ compute tf32 epilogue row_sum(acc) }} return y }}")
    assert c.scheduler == Scheduler("persistent")


def test_a_triangle_in_tf32_is_cut_into_squares_and_dealt_out_by_stream_k():
    c = product(4096, 4096, 4096, "epilogue triu(acc)")
    assert c.scheduler == Scheduler("stream_k")
    assert legal.triangle_side(4096, 4096, c.tile, c.cluster) > 1
    assert product(4096, 4096, 4096).scheduler == Scheduler("persistent")


def test_so_is_a_large_one_in_half_precision():
    c = product(4096, 4096, 4096, "epilogue triu(acc)", "f16", "f16")
    assert c.scheduler == Scheduler("stream_k") and legal.triangle_side(4096, 4096, c.tile, c.cluster) > 1


def test_a_small_one_is_not_worth_the_seconds_of_nvcc():
    assert product(1024, 1024, 512, "epilogue triu(acc)", "f16", "f16").scheduler == Scheduler("persistent")


@pytest.mark.parametrize("groups", [64, 32])
def test_a_product_that_is_normalised_gets_a_tile_whose_registers_hold_whole_groups(groups):
    text = f"""program p(x: f32[32768, 1024], w: f32[4096, 1024]) -> f32[32768, 4096] {{
      y = gemm(x, w.T) {{ compute tf32 }}
      z = normalize(y) {{ op groupnorm  groups {groups} }}
      return z
    }}"""
    c = config(text)
    assert normalized.fits(c, 4096 // groups) and c.schedule == "pingpong"


@pytest.mark.parametrize(
    "rest",
    [
        "y = gemm(x, w.T) { epilogue triu(acc) } return y",
        "h = gemm(x, w.T) { compute tf32 } y = normalize(h) { op groupnorm  groups 64 } return y",
    ],
)
def test_what_cpp_alone_spares_makes_it_the_first_choice(rest):
    text = f"program p(x: f32[4096, 1024], w: f32[4096, 1024]) -> f32[4096, 4096] {{ {rest} }}"
    assert next(iter(generate(check(text).program).sources)) == "cpp"
    forced = generate(check(text.replace("w.T) {", "w.T) { backend cute ")).program)
    assert list(forced.sources) == ["cute"] and "cpp" in forced.refused
    plain = generate(
        check(text.replace("epilogue triu(acc)", "").replace("op groupnorm  groups 64", "op softmax over n")).program
    )
    assert next(iter(plain.sources)) == "cute"


def test_no_tiles_are_grouped_where_one_operand_stays_in_l2_or_the_products_take_longer():
    assert product(1048576, 768, 256).swizzle == 1
    assert product(16384, 4096, 4096).swizzle == 1


def test_tiles_are_grouped_where_each_wave_would_read_a_large_operand_again():
    assert product(65536, 65536, 64, "tile 128x128x32  cluster 1x1x1").swizzle == 1  # 16 MB of it
    assert product(262144, 262144, 64, "tile 64x64x32  cluster 1x1x1").swizzle == 8


@pytest.mark.parametrize("filters", [48, 128, 256])
def test_a_convolutions_tile_is_not_far_wider_than_its_channels_out_and_keeps_to_its_registers(filters):
    text = f"""program p(x: f16[8, 64, 62, 62], w: f16[{filters}, 64, 3, 3]) -> f16[8, {filters}, 60, 60] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      y = conv2d(xt, wt) {{ compute f16  store nchw }}
      return y
    }}"""
    p = check(text).program
    problem, c = legal.program_problem(p, p.stages[2]), p.stages[2].config
    proposed = legal.tiles_for(problem)
    assert proposed and max(n for _, n, _ in proposed) < filters + 32
    wide = replace(c, tile=(256, 160, 64), schedule="cooperative")
    assert [o.code for o in legal.objections(problem, wide, "cute")] == ["E209"]
