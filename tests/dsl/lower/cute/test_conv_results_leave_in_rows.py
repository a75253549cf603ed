"""Where a convolution's results lie in shared memory on their way out: every place once, no two lanes in one bank."""

import pytest

from dsl.lower.cute.conv.conv_store import STORE


class Dtype:
    def __init__(self, width):
        self.width = width


def kernel(pixels, part, phases=1):
    scope = {"cute": type("cute", (), {"jit": staticmethod(lambda f: f)})}
    exec(STORE, scope)
    instance = scope["ConvResults"]()
    instance.pixels, instance.part, instance.phases = pixels, part, phases
    return instance


# A warp holds 8 rows by 4 pairs of columns of the sums (warp-group MMA's fragment).
LANES = [(lane // 4, 2 * (lane % 4)) for lane in range(32)]


@pytest.mark.parametrize("width, part", [(16, 64), (16, 32), (16, 128), (16, 8), (32, 32), (32, 16)])
def test_by_pixel(width, part):
    k, dtype = kernel(128, part), Dtype(width)
    places = [k.by_pixel(row, column, dtype) for row in range(128) for column in range(part)]
    assert sorted(places) == list(range(128 * part))
    unit = 128 // width
    for row in range(128):
        for column in range(0, part, unit):  # a unit stays whole, and at a multiple of 16 bytes
            start = k.by_pixel(row, column, dtype)
            assert start % unit == 0 and k.by_pixel(row, column + unit - 1, dtype) == start + unit - 1
    if part * width >= 512:
        words = [k.by_pixel(8 + row, column, dtype) * width // 32 for row, column in LANES]
        banks = [w % 32 for w in words]
        assert max(map(banks.count, banks)) <= (1 if width == 16 else 2)


@pytest.mark.parametrize("pixels, part, phases", [(128, 32, 1), (256, 16, 1), (64, 64, 1), (128, 16, 2), (128, 8, 3)])
def test_by_channel(pixels, part, phases):
    k = kernel(pixels, part, phases)
    places = [k.by_channel(c, p, row) for c in range(part) for p in range(phases) for row in range(pixels)]
    assert sorted(places) == list(range(pixels * part * phases))
    for phase in range(phases):
        for half in range(2):
            if phases == 1 or pixels % 32 == 0:
                banks = [k.by_channel(column + half, phase, 16 + row) % 32 for row, column in LANES]
                assert len(set(banks)) == 32
    for row in range(0, pixels, 8):  # 8 pixels stay neighbours, as they leave together
        start = k.by_channel(5, 0, row)
        assert start % 8 == 0 and [k.by_channel(5, 0, row + i) - start for i in range(8)] == list(range(8))
