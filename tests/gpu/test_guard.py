"""Guarded programs on the real GPU: right where f16 has the range, and where it has not.

Run the first one first on a new machine, alone: `timeout 500 python -m pytest -x -p no:xdist tests/gpu/test_guard.py -k
every_gated`. A wrong gate makes a kernel wait for ever, and this test ends the process that launched it.
"""

import json
import subprocess
import sys

import pytest

from engine.bench.studies import guarded
from tests.dsl.lower.cute.gated import texts

pytestmark = pytest.mark.gpu

SECONDS = 420.0  # of a minute or two
PROGRAMS = [
    "linear_div_gelu_f16", "matmul_square_f16", "conv2d_relu_bias_f16", "mlp_sigmoid_logsumexp_f16",
    "conv_transpose2d_square_f16",
]  # fmt: skip
BETWEEN = "mlp_sigmoid_logsumexp_f16"  # stores f16 between products
ON_CUDA_CORES = "conv_transpose2d_square_f16"


def test_every_gated_kernel_runs_where_the_flag_says_so(cuda):  # skips without a GPU; the kernels run elsewhere
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.gpu.gated_kernels"], capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as e:
        begun = [line for line in (e.stdout or b"").decode().splitlines() if not line.startswith("{")]
        pytest.fail(f"still running after {SECONDS:.0f} s: {begun[-2:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert not [row for row in rows if row["wrong"]]
    assert [row["name"] for row in rows] == list(texts()), done.stderr[-3000:]


def test_programs_of_the_suite_hold_on_every_set_and_rescue_within_their_limits(cuda):
    rows = []
    guarded.run(PROGRAMS, cuda, 300.0, rows.append)
    assert [r["program"] for r in rows] == PROGRAMS
    for row in rows:
        assert row["faults"] == [], guarded.line(row)
        if row["program"] == ON_CUDA_CORES:
            assert row["sets"]["large"]["error"] < 1e-5 and "tf32_ms" not in row
        else:
            assert row["tf32_ms"] > 0
        if row["program"] != BETWEEN:  # a sum of a thousand sigmoids averages its rounding away
            assert row["sets"]["own"]["error"] > 1e-5  # f16
        assert row["rescue_ms"] > 0 and row["ms"]["guarded"] > 0
