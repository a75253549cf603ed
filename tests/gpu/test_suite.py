"""Two programs of the suite on the real GPU: built, run at full size against their modules, timed beside eager TF32."""

import pytest

from engine.suite.cases import cases
from engine.suite.runner import run

pytestmark = pytest.mark.gpu


def test_two_programs_are_right_and_timed(cuda, tmp_path):
    chosen = [c for c in cases() if c.name in ("matrix_vector", "linear_relu_div", "matmul_square_f16")]
    rows = []
    run(chosen, cuda, tmp_path / "suite.json", rows.append, seed=11, backends=("cute",))
    by_name = {r["program"]: r for r in rows}
    assert by_name["linear_relu_div"]["failed"] == "refused", "tf32 is the cpp back end's"
    for name in ("matrix_vector", "matmul_square_f16"):
        row = by_name[name]
        assert row["ok"], row
        assert row["error"] <= row["tolerance"] and row["ms"] > 0 and row["eager_ms"] > 0
