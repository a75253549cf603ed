"""The layout of a recurrent stage: it covers every unit, sequence and word of K, and fits a block of an H200."""

from itertools import product
from math import ceil

import pytest

from dsl.ir import CELLS, DType
from dsl.rules.recurrent.layout import CLUSTERS, SHARED, THREADS, UNITS, WARPS, fit, latency, most_hidden

SIZES = (1, 7, 8, 20, 64, 100, 129, 256, 320, 511, 512, 700)
BATCHES = (1, 3, 8, 10, 17, 64, 100, 1000)
EVERY = [
    layout
    for op, hidden, batch, compute in product(CELLS, SIZES, BATCHES, (DType.TF32, DType.F16, DType.F32))
    if (layout := fit(op, hidden, batch, 1, compute)) is not None
]


def test_there_are_layouts_of_every_cluster():
    assert {layout.cluster for layout in EVERY} == set(CLUSTERS) and len(EVERY) > 900


def test_every_unit_and_sequence_has_one_cell():
    for x in EVERY:
        assert x.units % UNITS == 0 and (x.cluster - 1) * x.units < x.hidden <= x.cluster * x.units
        assert x.items * THREADS >= x.units * x.sequences and x.sequences <= x.columns < x.sequences + 8


def test_the_warps_cover_the_rows_and_all_of_k():
    for x in EVERY:
        assert x.warps_k * x.warps_m == WARPS and x.rows == 16 * x.tiles * x.warps_m >= x.gates * x.units
        assert 8 * x.steps * x.warps_k * x.words >= x.cluster * x.units  # what the blocks send lies within K
        assert x.steps % 2 == x.resident % 2 == 0 and 0 <= x.resident <= x.steps


def test_a_block_has_the_shared_memory_and_the_registers():
    for x in EVERY:
        sums = x.tiles * (2 * x.columns if x.exact else x.columns // 2)
        assert x.shared_bytes <= SHARED and 4 * x.tiles * x.resident + sums <= 188


def test_lanes_read_hidden_state_and_write_sums_in_different_banks():
    for x in EVERY:
        assert x.stride % 32 == 16 and x.stride >= 8 * x.steps * x.warps_k
        assert x.sums_stride % 32 in (8, 24) and x.sums_stride >= x.columns
        for first in range(0, 32, 8):  # the lanes of one phase of a load of 16 bytes
            lanes = range(first, first + 8)
            banks = {(lane // 4 * x.stride + lane % 4 * 4 + i) % 32 for lane in lanes for i in range(4)}
            assert len(banks) == 32


def test_what_is_sent_is_whole_vectors_of_16_bytes():
    assert all(x.units * 4 // x.words % 16 == 0 and x.stride % 4 == 0 for x in EVERY)


def test_groups_of_sequences_cover_the_batch():
    for op, batch in product(CELLS, BATCHES):
        x = fit(op, 256, batch, 2, DType.TF32)
        assert (x.groups - 1) * x.sequences < batch <= x.groups * x.sequences
        assert x.groups == ceil(batch / x.sequences)


@pytest.mark.parametrize(("compute", "least"), [(DType.TF32, 512), (DType.F16, 640), (DType.F32, 512)])
def test_the_most_hidden_units_are_known(compute, least):
    most = most_hidden("lstm", 10, 1, compute)
    assert most >= least and fit("lstm", most, 10, 1, compute) and not fit("lstm", most + 32, 10, 1, compute)


def test_small_networks_need_no_cluster():
    assert fit("lstm", 32, 4, 1, DType.TF32).cluster == 1 and latency(1) < latency(2)
    assert fit("lstm", 256, 10, 1, DType.TF32).cluster == 16
