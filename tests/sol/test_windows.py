"""The counts of a window in closed form are those of all its taps, one by one."""

from itertools import product
from random import Random

import pytest

from sol.cost.windows import Window, floor_sum
from sol.model.attention import _steps


def every(w):
    """(pairs, places, reach), tap by tap."""
    read = [
        (o, o * w.stride + t * w.dilation - w.padding)
        for o, t in product(range(w.steps), range(w.kernel))
        if 0 <= o * w.stride + t * w.dilation - w.padding < w.size
    ]
    steps = [o for o, _ in read]
    return len(read), len({place for _, place in read}), max(steps) - min(steps) + 1 if steps else 0


def counts(w):
    return w.pairs(), w.places(), w.reach()


def test_small_windows_are_counted_as_tap_by_tap():
    rng = Random(7)
    for _ in range(4000):
        sizes = [rng.randrange(12), rng.randrange(25), rng.randrange(9)]
        w = Window(*sizes, stride=rng.randrange(1, 8), padding=rng.randrange(-3, 12), dilation=rng.randrange(1, 8))
        assert counts(w) == every(w), w


@pytest.mark.parametrize("stride", [1, 2, 3, 6])
@pytest.mark.parametrize("dilation", [1, 2, 4, 9])
def test_strides_and_dilations_with_and_without_a_common_divisor(stride, dilation):
    for steps, size, kernel, padding in product((1, 5), (1, 4, 30), (1, 3, 7), (0, 2, 17)):
        w = Window(steps, size, kernel, stride, padding, dilation)
        assert counts(w) == every(w), w


def test_windows_that_no_loop_over_their_taps_would_end():
    n = 10**12
    assert counts(Window(n + 1, 2 * n, n, 1, 0, 1)) == (n * (n + 1), 2 * n, n + 1)
    assert counts(Window(n, n, n, n, 0, 1)) == (n, n, 1)  # only the first step is inside
    assert counts(Window(n, n, 1, 1, 0, n)) == (n, n, n)
    assert counts(Window(2, 2**40 - 1, 2**40 - 1, 3, 1, 7)) == every_seventh(2**40 - 1)


def every_seventh(size):
    """(pairs, places, reach) of two steps, 3 apart, of taps 7 apart from place -1 on."""
    first, second = (size - 1 - 6) // 7 + 1, (size - 1 - 2) // 7 + 1  # from places 6 and 2
    return first + second, first + second, 2


@pytest.mark.parametrize(("stride", "dilation"), [(0, 1), (1, 0), (-1, 1), (1, -2)])
def test_a_window_that_does_not_move_forward_is_an_error(stride, dilation):
    with pytest.raises(ValueError, match="forward"):
        Window(3, 3, 2, stride, 0, dilation)


def test_floors_are_summed():
    rng = Random(3)
    for _ in range(2000):
        count, slope, start, divisor = (rng.randrange(30) for _ in range(4))
        divisor += 1
        assert floor_sum(count, slope, start, divisor) == sum((start + i * slope) // divisor for i in range(count))


def test_the_steps_of_attention_are_those_of_its_rows():
    rng = Random(5)
    for _ in range(2000):
        rows, n, queries, keys = rng.randrange(1, 20), rng.randrange(1, 200), rng.randrange(1, 40), rng.randrange(1, 40)
        each = [-(-min(n, (i + 1) * queries) // keys) for i in range(rows)]
        assert _steps(rows, n, queries, keys) == (sum(each), max(each))
    assert _steps(2**40, 2**50, 2**9, 2**7) == (2 * 2**40 * (2**40 + 1), 2**42)
