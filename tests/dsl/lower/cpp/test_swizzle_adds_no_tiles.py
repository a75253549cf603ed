"""CUTLASS rounds the grid up to whole swizzle groups and computes what lies beyond; the binding passes what fits."""

import pytest

from dsl.lower.cpp import lower

from . import programs

TEXT = """
program p(x: f16[{m}, 512], w: f16[{n}, 512]) -> f16[{m}, {n}] {{
  arch sm_90a
  y = gemm(x, w.T) {{ compute f16 tile 128x128x64 cluster {cluster} schedule cooperative swizzle {swizzle} }}
  return y
}}
"""


@pytest.mark.parametrize(
    ("m", "n", "cluster", "asked", "passed"),
    [
        (4096, 4096, "1x1x1", 8, 8),
        (4096, 4096, "2x1x1", 8, 8),
        (1024, 8192, "1x1x1", 8, 8),
        (1024, 8192, "2x1x1", 8, 4),  # 8 rows of tiles: 8 groups of 2 would make them 16
        (1024, 8192, "2x1x1", 2, 2),  # never more than asked for
        (768, 8192, "1x1x1", 8, 2),  # 6 rows: 8 and 4 would make them 8
        (384, 8192, "1x1x1", 8, 1),
        (8192, 1024, "1x2x1", 8, 4),
    ],
)
def test_the_group_is_the_largest_that_divides_the_grid(m, n, cluster, asked, passed):
    source = lower(programs.program(TEXT.format(m=m, n=n, cluster=cluster, swizzle=asked)))
    assert f"LAUNCH = [0, {passed}, 1]" in source.binding
