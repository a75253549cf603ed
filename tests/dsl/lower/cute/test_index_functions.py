"""The text that turns an index into offsets, run on plain numbers, walks every element where its strides say."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.ir import NHWC, DType, Load, TensorType
from dsl.ir.views import view_strides
from dsl.lower.cute.space import Offset, Space, aligned_vector, index_function, load_strides


def run(text: str):
    scope = {"Int64": int, "Uint32": int}
    exec(text, scope)
    return scope["f"]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms())
def test_merged_axes_walk_the_same_offsets(extents, random):
    order = list(range(len(extents)))
    random.shuffle(order)
    strides, step = [0] * len(extents), 1
    for axis in order:
        strides[axis], step = step, step * extents[axis]
    broadcast = [s if random.random() < 0.7 else 0 for s in strides]
    space = Space(tuple(extents), {"a": tuple(strides), "b": tuple(broadcast)})
    merged = space.merged()
    wide = random.random() < 0.5
    extents_ = merged.extents or (1,)
    offsets = [Offset(k, merged.strides[k] or (0,), 5, wide) for k in ("a", "b")]
    f = run(index_function("f", "", extents_, offsets))
    places = itertools.product(*map(range, extents))
    for index, place in enumerate(places):
        want = tuple(5 + sum(p * s for p, s in zip(place, x, strict=True)) for x in (strides, broadcast))
        assert tuple(f(index)) == want


def test_axes_that_lie_as_one_are_one():
    t = TensorType(DType.F32, (4, 8, 5, 6))
    space = Space(t.shape, {"x": t.strides, "b": (0, 1, 0, 0)})
    assert space.merged().extents == (4, 8, 30)
    assert Space(t.shape, {"x": t.strides}).merged().extents == (960,)


def test_limits_come_after_the_offsets():
    f = run(index_function("f", "", (3, 4), [Offset("x", (4, 1))], inside=[(0, 2), (1, 3)]))
    assert [f(i)[1] for i in range(12)] == [int(i // 4 < 2 and i % 4 < 3) == 1 for i in range(12)]


@pytest.mark.parametrize(
    ("axes", "shape", "layout", "want"),
    [
        (("c",), (8,), "nchw", (0, 1, 0, 0)),
        (("h", "w"), (5, 6), "nchw", (0, 0, 6, 1)),
        (("l", "m"), (4, 8, 5), "nchw", (40, 5, 1, 0)),
        (("b", "c", "h", "w"), (4, 8, 5, 6), NHWC, (240, 1, 48, 8)),
        (("b", "c"), (1, 8), "nchw", (0, 1, 0, 0)),
        ((), (), "nchw", (0, 0, 0, 0)),
    ],
)
def test_what_a_load_reads_along_each_axis(axes, shape, layout, want):
    names = {"l": (0, 1), "m": (2,), "n": (3,), "b": (0,), "c": (1,), "h": (2,), "w": (3,)}
    assert load_strides(TensorType(DType.F32, shape, layout), Load("t", axes), names, 4) == want


def test_vectors_are_as_wide_as_every_row_is_aligned():
    assert aligned_vector(64, [(64, 1)], [32]) == 4
    assert aligned_vector(64, [(64, 1), (64, 1)], [32, 16]) == 8
    assert aligned_vector(62, [(62, 1)], [16]) == 2
    assert aligned_vector(64, [(63, 1)], [16]) == 1
    assert aligned_vector(126 * 126, [(126 * 126, 1)], [32]) == 4


@given(st.permutations([2, 3, 4]), st.sampled_from([(24,), (6, 4), (2, 12), (4, 6), (2, 3, 4), (8, 3), (1, 24, 1)]))
def test_views_see_the_same_elements_or_nothing(shape, view):
    strides = (shape[1] * shape[2], shape[2], 1)
    moved = tuple(strides[i] for i in (1, 0, 2))
    for have, steps in ((tuple(shape), strides), ((shape[1], shape[0], shape[2]), moved)):
        result = view_strides(have, steps, view)
        if result is None:
            assert steps is moved
            continue
        flat = [sum(p * s for p, s in zip(at, steps, strict=True)) for at in itertools.product(*map(range, have))]
        seen = [sum(p * s for p, s in zip(at, result, strict=True)) for at in itertools.product(*map(range, view))]
        assert seen == flat and math.prod(view) == math.prod(have)


def test_wide_offsets_are_computed_in_64_bits():
    text = index_function("f", "", (3, 2**30), [Offset("x", (2**30, 1), 0, True)])
    assert "Int64(i0) * 1073741824 + Int64(i1)" in text
