"""How a tile of a row-major convolution lies in shared memory and is shared out among warps: plain arithmetic."""

from dataclasses import replace
from itertools import product

import pytest

from dsl.rules.halo import GAP, WORD, Layout, conflicts, fit
from dsl.rules.image import Image, box, waste

LIMIT = 232_448  # bytes of shared memory of an H200's block
IMAGE = Image(
    batch=1, channels=8, filters=64, size=(1, 66, 66), out=(1, 64, 64), window=(1, 3, 3), stride=(1, 1, 1),
    padding=(0, 0, 0), dilation=(1, 1, 1), step=16,
)  # fmt: skip


def sized(height: int, width: int) -> Image:
    return replace(IMAGE, size=(1, height + 2, width + 2), out=(1, height, width))


@pytest.mark.parametrize(
    ("height", "width", "pixels", "expected"),
    [
        (254, 254, 256, (1, 256)),  # a whole row
        (126, 126, 256, (2, 128)),
        (62, 62, 512, (8, 64)),
        (55, 55, 224, (4, 56)),
        (1, 100_000, 256, (1, 256)),
        (130, 130, 256, (4, 64)),  # 128 would be twice 130 in all
    ],
)
def test_a_box_is_of_long_rows_that_waste_little(height, width, pixels, expected):
    assert box(sized(height, width), pixels) == expected


@pytest.mark.parametrize(
    ("height", "width", "pixels", "few", "many"),
    [(1026, 1026, 512, (2, 256), (4, 128)), (66, 66, 288, (4, 72), (4, 72)), (66, 66, 256, (8, 32), (8, 32))],
)
def test_where_products_take_longest_a_box_wastes_less(height, width, pixels, few, many):
    image = sized(height, width)
    deep = replace(image, channels=64)
    assert (box(image, pixels), box(deep, pixels)) == (few, many)
    assert waste(deep, pixels) <= waste(image, pixels)


def test_results_of_whole_rows_are_one_run_and_of_parts_one_a_row():
    whole = Layout(sized(62, 62), 64, 4, 64, 8)
    assert (whole.whole_rows, whole.run) == (True, 256 + GAP)
    part = Layout(sized(62, 500), 64, 4, 64, 8)
    assert (part.whole_rows, part.run, part.line) == (False, 64 + GAP, 288 + GAP)


def test_eight_filters_of_a_warp_write_their_results_to_different_banks():
    for rows, columns in ((1, 256), (4, 56), (8, 8)):
        line = Layout(sized(62, 500), 64, rows, columns, 8).line
        assert len({(g * line + 2 * q) % 32 for g in range(4) for q in range(4)}) == 16  # half a warp's pairs of words


def test_a_plane_of_the_box_is_placed_so_that_a_warp_reads_without_conflicts():
    layout = Layout(sized(62, 62), 64, 4, 64, 8)
    assert conflicts(layout.plane, 1) == 1 and layout.plane % layout.vector == 0


@pytest.mark.parametrize(
    ("m", "rows", "columns", "channels", "warps"),
    [(64, 1, 128, 8, 4), (32, 2, 256, 8, 8), (64, 1, 256, 8, 4), (64, 1, 256, 32, 8), (128, 1, 256, 8, 8)],
)
def test_eight_warps_share_a_large_tile_unless_two_blocks_of_four_stand_together(m, rows, columns, channels, warps):
    layout = fit(Layout(replace(sized(254, 254), channels=32), m, rows, columns, channels), 2, LIMIT)
    assert (layout.warps, layout.warp_m * layout.warp_n * layout.warps, layout.splits) == (
        warps,
        m * rows * columns,
        True,
    )


def test_shared_memory_is_what_its_parts_take():
    fitting = fit(Layout(IMAGE, 64, 1, 256, 8), 2, LIMIT)
    layout = fitting.layout
    words = 2 * layout.box_words + layout.weight_words + 2 * 8 * layout.line
    assert (fitting.resident, fitting.buffers, fitting.shared_bytes) == (True, 2, WORD * words)


def test_where_room_is_short_one_buffer_goes_before_the_weights():
    layout = Layout(IMAGE, 64, 1, 256, 8)
    whole = fit(layout, 2, LIMIT)
    one = fit(layout, 2, whole.shared_bytes - 4)
    less = fit(layout, 2, one.shared_bytes - 4)
    assert (one.resident, one.buffers) == (True, 1)
    assert not less.resident or less.shared_bytes > one.shared_bytes - 4


def test_pieces_of_eight_pixels_that_no_warp_has_whole_are_told():
    assert not fit(Layout(sized(55, 55), 32, 2, 56, 8), 2, LIMIT).splits  # 112 pixels, four warps of 28
    assert fit(Layout(sized(55, 55), 96, 2, 56, 8), 2, LIMIT).splits  # two by two


@pytest.mark.parametrize(
    ("rows", "columns", "changes"),
    [
        (4, 16, {}),
        (2, 16, {"stride": (1, 2, 2), "out": (1, 32, 32)}),
        (1, 24, {"dilation": (1, 3, 5), "out": (1, 60, 56)}),
        (2, 8, {"window": (3, 3, 3), "size": (7, 20, 30), "out": (5, 18, 28)}),
        (
            2,
            8,
            {"window": (3, 2, 2), "size": (9, 20, 30), "out": (3, 19, 29), "stride": (2, 1, 1), "dilation": (2, 1, 1)},
        ),
        (2, 8, {"window": (2, 2, 2), "size": (9, 9, 17), "out": (4, 8, 16), "stride": (2, 1, 1)}),
        (
            2,
            32,
            {"window": (1, 1, 1), "size": (2, 16, 130), "out": (2, 8, 65), "stride": (1, 2, 2), "padding": (0, 1, 1)},
        ),
    ],
)
def test_what_tiles_have_to_themselves_is_all_that_any_of_them_holds(rows, columns, changes):
    image = replace(IMAGE, **changes)
    layout = Layout(image, 64, rows, columns, 8)
    (own, whole), out = (layout.own, (image.window[0], layout.inner_rows, layout.pitch)), image.out
    steps = (1, rows, columns)
    reach = (image.window[0] - 1) * image.dilation[0] // image.stride[0] or 1

    def words(first, counts):
        """In x's coordinates, the planes of a box being a dilation apart."""
        at = [f * s for f, s in zip(first, image.stride, strict=True)]
        return {(at[0] + d * image.dilation[0], at[1] + h, at[2] + w) for d, h, w in product(*map(range, counts))}

    total, looked_at, twice = set(), set(), 0
    for first in product(*(range(0, n, s) for n, s in zip(out, steps, strict=True))):
        ends = any(
            f + s >= n and o < a for f, s, n, o, a in zip(first, (reach, *steps[1:]), out, own, whole, strict=True)
        )
        area = words(first, whole if ends else own)
        twice += len(words(first, whole))
        total |= words(first, whole)
        looked_at |= area
    assert looked_at == total
    assert own == whole or len(total) < twice
