"""The ranking leaves out configurations by their first clauses: exactly those that break a rule as a whole."""

from dataclasses import replace
from itertools import product

import pytest

from dsl.check.program import check
from dsl.ir import Config, Scheduler
from dsl.rules import legal
from engine.strategies.planner.search.candidates import CLUSTERS, rank
from sol.hardware import load

PRODUCT = """program p(x: f16[{m}, 512], w: f16[{n}, 512]) -> f16[{m}, {n}] {{
  y = gemm(x, w.T) {{ epilogue relu(acc) }}
  return y
}}"""


@pytest.mark.parametrize("backend", legal.BACKENDS)
@pytest.mark.parametrize(("m", "n"), [(4096, 4096), (128, 512), (64, 96)])
def test_every_legal_tile_cluster_and_schedule_is_ranked_and_no_other(m, n, backend):
    program = check(PRODUCT.format(m=m, n=n)).program
    (stage,) = program.stages
    problem = legal.program_problem(program, stage)
    ranked = {(r.config.tile, r.config.cluster, r.config.schedule) for r in rank(program, stage, load("h200"), backend)}
    tiles = [tile for tile in legal.tiles_for(problem) if tile[2] == 64]
    expected = set()
    for tile, cluster, schedule in product(tiles, CLUSTERS, legal.SCHEDULES):
        config = Config(tile=tile, cluster=cluster, schedule=schedule, scheduler=Scheduler("persistent"), swizzle=1)
        if not legal.objections(problem, replace(config, compute=stage.config.compute), backend):
            expected.add((tile, cluster, schedule))
    assert ranked == expected and expected
