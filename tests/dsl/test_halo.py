"""How a tile of a row-major convolution lies in shared memory and is shared out among warps: plain arithmetic."""

from dataclasses import replace

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
    made = fit(Layout(replace(sized(254, 254), channels=32), m, rows, columns, channels), 2, LIMIT)
    assert (made.warps, made.warp_m * made.warp_n * made.warps, made.splits) == (warps, m * rows * columns, True)


def test_shared_memory_is_what_its_parts_take():
    made = fit(Layout(IMAGE, 64, 1, 256, 8), 2, LIMIT)
    layout = made.layout
    words = 2 * layout.box_words + layout.weight_words + 2 * 8 * layout.line
    assert (made.resident, made.buffers, made.shared_bytes) == (True, 2, WORD * words)


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
