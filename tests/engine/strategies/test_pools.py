"""Which pools are lowered, and with which clauses."""

import pytest

from dsl.check.program import check
from dsl.ir import NCHW, NHWC, Pool
from dsl.printer import to_text
from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import lower
from tests.engine.graphs import Builder

DILATED = {"kernel_size": [3], "stride": [2], "padding": [1], "dilation": [3]}


def pooled(op, shape, out, **attrs):
    g = Builder()
    return g.graph(g.op(op, [g.input("x", shape)], out, **attrs))


def clauses(graph):
    text = to_text(lower(graph).program("tf32"))
    assert check(text).ok, [d.render(text) for d in check(text).diagnostics]
    lines = text[text.index("pool(x) {") :].splitlines()[1:]
    return [line.strip() for line in lines[: lines.index("  }")]]


@pytest.mark.parametrize("space", [1, 2, 3])
def test_a_max_pool_keeps_its_dilation(space):
    out = (4, 8, *(14,) * space)  # (32 + 2 - 3 * 2 - 1) // 2 + 1
    got = clauses(pooled(f"max_pool{space}d", (4, 8, *(32,) * space), out, **DILATED))
    words = ("window", "stride", "padding", "dilation")
    sizes = [f"{word} {'x'.join(n * space)}" for word, n in zip(words, "3213", strict=True)]
    assert got == ["op max", *sizes, "store f32"]


def test_rounding_up_is_lowered_where_it_adds_no_window():
    even = pooled("max_pool2d", (4, 8, 32, 32), (4, 8, 16, 16), kernel_size=[2, 2], ceil_mode=True)
    assert clauses(even) == ["op max", "window 2x2", "store f32"]
    odd = pooled("max_pool2d", (4, 8, 33, 33), (4, 8, 17, 17), kernel_size=[2, 2], ceil_mode=True)
    with pytest.raises(SessionRefused, match="ceil_mode"):
        lower(odd)


@pytest.mark.parametrize("behind", [False, True])
def test_a_pool_keeps_the_layout_of_what_it_reads(behind):
    """Across layouts each thread would read another row for each element of its window."""
    g = Builder()
    x, shape = g.input("x", (4, 64, 32, 32)), (4, 64, 32, 32)
    if behind:
        x = g.op("conv2d", [x, g.parameter("before", (64, 64, 3, 3))], shape, padding=[1, 1])
    pool = g.op("max_pool2d", [x], shape, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
    lowered = lower(g.graph(g.op("conv2d", [pool, g.parameter("behind", (64, 64, 3, 3))], shape, padding=[1, 1])))
    program = check(to_text(lowered.program("tf32"))).program
    stage = next(s for s in program.stages if isinstance(s, Pool))
    assert stage.type.layout == program.type_of(stage.operands[0].name).layout == (NHWC if behind else NCHW)
