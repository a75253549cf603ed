"""What `auto` becomes: legal, kept where the author spoke, and the same every time."""

from dataclasses import replace
from pathlib import Path

import pytest

from dsl.check.program import check
from dsl.ir import Gemm, Program
from dsl.printer import to_text
from dsl.resolve import complete, possible, resolve
from dsl.rules import legal

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = sorted((Path(__file__).parents[2] / "dsl" / "examples").glob("*.ucutlass"))


def program(shape: str, clauses: str = "") -> Program:
    """A checked program of one f16 gemm of MxNxK."""
    m, n, k = shape.split("x")
    head = f"program p(x: f16[{m}, {k}], w: f16[{n}, {k}]) -> f16[{m}, {n}]"
    checked = check(f"{head} {{ y = gemm(x, w.T) {{ {clauses} }} return y }}")
    assert checked.ok, checked.diagnostics
    return checked.program


def gemm(shape: str, clauses: str = "") -> Gemm:
    return resolve(program(shape, clauses)).stages[0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_resolves_to_its_golden_text(path):
    resolved = to_text(resolve(check(path.read_text()).program))
    assert resolved == (GOLDEN / path.name).read_text()


def test_what_the_author_wrote_is_kept():
    c = gemm("4096x4096x4096", "tile 64x128x64  cluster 1x1x1  stages 3  swizzle 2").config
    assert (c.tile, c.cluster, c.stages, c.swizzle) == ((64, 128, 64), (1, 1, 1), 3, 2)
    assert c.schedule == "pingpong"  # the only one that a tile of 64 rows has


@pytest.mark.parametrize(
    "shape", ["8x8x8", "16x16x65536", "64x8x64", "1x8192x8192", "100x1000x504", "65536x64x64", "8x65536x8"]
)
def test_any_shape_gets_a_configuration_that_both_back_ends_take(shape):
    s = gemm(shape)
    text = to_text(resolve(program(shape)))
    checked = check(text)
    assert checked.ok
    problem = legal.program_problem(checked.program, s)
    assert legal.backends(problem, s.config) == legal.BACKENDS


def test_a_large_problem_gets_large_tiles_and_a_small_one_small():
    large, small = gemm("8192x8192x8192").config.tile, gemm("64x256x512").config.tile
    assert large[0] * large[1] >= 128 * 256
    assert small[0] == 64 and small[1] <= 64


def test_fewer_sms_never_leave_the_space_of_legal_configurations():
    wide = program("1024x4096x4096")
    for sms in (1, 2, 78, 114, 132, 148):
        assert check(to_text(resolve(wide, sms))).ok


def test_possible_agrees_with_complete():
    flat = program("64x1024x512")
    problem = legal.program_problem(flat, flat.stages[0])
    for clauses in (
        {},
        {"cluster": (4, 1, 1)},
        {"stages": 16},
        {"tile": (64, 16, 256), "stages": 16},
        {"schedule": "pingpong"},
    ):
        config = replace(flat.stages[0].config, **clauses)
        assert possible(problem, config) == (complete(problem, config) is not None)


def test_resolving_an_unchecked_impossible_stage_says_so():
    flat = program("64x1024x512")
    bad = replace(flat.stages[0], config=replace(flat.stages[0].config, cluster=(4, 1, 1)))
    with pytest.raises(ValueError, match="no legal configuration"):
        resolve(replace(flat, stages=(bad,)))


def test_tf32_with_b_along_n_gives_the_kernel_its_wide_instruction():
    """The kernel computes the transposed result, so the tile's M is the instruction's N; 128 of it ran at 0.6 times."""
    text = (
        "program p(x: f32[2048, 8192], w: f32[8192, 4096]) -> f32[2048, 4096] "
        "{ y = gemm(x, w) { compute tf32 } return y }"
    )
    c = resolve(check(text).program).stages[0].config
    assert (c.tile, c.cluster) == ((256, 128, 32), (1, 2, 1))
    c = resolve(check(text.replace("w: f32[8192, 4096]", "w: f32[4096, 8192]").replace("(x, w)", "(x, w.T)")).program)
    assert c.stages[0].config.tile == (256, 128, 32)
