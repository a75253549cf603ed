"""A guarded product and a guarded convolution on the real GPU: right where f16 has the range, and where it has not."""

import pytest

from engine.bench.studies import guarded

pytestmark = pytest.mark.gpu


PROGRAMS = ["matmul_square_f16", "conv2d_relu_bias_f16", "mlp_sigmoid_logsumexp_f16"]  # the last one stores f16 between


def test_products_and_a_convolution_hold_on_every_set(cuda):
    rows = []
    guarded.run(PROGRAMS, cuda, 300.0, rows.append)
    assert [r["program"] for r in rows] == PROGRAMS
    for row in rows:
        assert row["faults"] == [], guarded.line(row)
        assert row["sets"]["large"]["error"] < 1e-5  # f32 on the CUDA cores
        if row["program"] != PROGRAMS[-1]:  # a sum of a thousand sigmoids averages its rounding away
            assert row["sets"]["own"]["error"] > 1e-5  # f16
        assert row["rescue_ms"] > row["ms"]["guarded"] > 0
