"""Where a tensor ends within a warp's chunk, one small element of it by chance does not trip the guard."""

import pytest

from .test_guarded import run

# 33 columns are padded to 64, so that a warp reads one element of the last row and 127 zeros.
PADDED = """program p(x: f32[8, 64], w: f32[64, 33]) -> f32[8, 64] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { pad 72x64  to f16 }
  xp = transform(xh) { pad 8x72 }
  y = gemm(xp, wh) { store f32 }
  return y
}"""


def tripped(change) -> bool:
    """Whether the rescue wrote the results."""
    have, _ = run(PADDED, change)
    return not bool((have == -77.0).all())


@pytest.mark.parametrize("small", [1e-4, 0.0])
def test_one_small_element_in_the_corner_is_like_one_anywhere_else(small):
    def corner(tensors):
        tensors[1][-1, -1] = small

    assert not tripped(corner)


@pytest.mark.parametrize("rows", [slice(-20, None), slice(None)])
def test_many_small_ones_trip_it_as_they_did(rows):
    def small(tensors):
        tensors[1][rows] *= 1e-4

    assert tripped(small)


def test_so_does_one_that_is_too_large():
    def large(tensors):
        tensors[1][-1, -1] = 1e6

    assert tripped(large)
