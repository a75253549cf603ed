"""A guarded product and a guarded convolution on the real GPU: right where f16 has the range, and where it has not."""

import pytest

from engine.bench import guarded

pytestmark = pytest.mark.gpu


def test_a_product_and_a_convolution_hold_on_every_set(cuda):
    rows = []
    guarded.run(["matmul_square_f16", "conv2d_relu_bias_f16"], 4, 300.0, rows.append)
    assert [r["program"] for r in rows] == ["matmul_square_f16", "conv2d_relu_bias_f16"]
    for row in rows:
        assert row["faults"] == [], guarded.line(row)
        assert row["sets"]["large"]["error"] < 1e-5 < row["sets"]["own"]["error"]  # f32 on the CUDA cores, and f16
        assert row["rescue_ms"] > row["ms"]["guarded"] > 0
