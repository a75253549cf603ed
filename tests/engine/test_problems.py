"""The examples: every problem of the 59 is there once, traces, and costs what the published figures say it costs."""

import json
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.bounds import external_bytes  # noqa: E402
from sol.cost.ops import cost  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

ROOT = Path(__file__).parents[2]
SUITE = {p["id"]: p for p in json.loads((ROOT / "tests/sol/data/suite59.json").read_text())["problems"]}
FILES = sorted((ROOT / "engine/problems").glob("*.py"))
_ID = re.compile(r"\(suite59 (L[12]/\d+)\)")


def suite_id(path):
    match = _ID.search(path.read_text().partition("\n")[0])
    return match and match[1]


BY_ID = {suite_id(path): path for path in FILES if suite_id(path)}


def test_each_of_the_59_is_there_once():
    named = [suite_id(path) for path in FILES if suite_id(path)]
    assert sorted(named) == sorted(SUITE) and len(SUITE) == 59


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_first_line_is_a_title(path):
    first = path.read_text().partition("\n")[0]
    assert first.startswith('"""') and first.endswith('."""') and len(first) <= 120


@pytest.mark.parametrize("pid", SUITE)
def test_it_traces_and_costs_what_the_suite_says(pid):
    """On fake tensors: shapes without memory, so that 14 GB of images cost nothing."""
    names = {}
    exec(compile(BY_ID[pid].read_text(), BY_ID[pid].name, "exec"), names)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        model, inputs = names["Model"](*names["get_init_inputs"]()).eval(), tuple(names["get_inputs"]())
    graph = OpGraph.from_json(json.dumps(Capture(export(model, inputs)).graph()))
    flops = sum(cost(op, graph.tensors).matrix for op in graph.ops)
    assert flops / 1e9 == pytest.approx(SUITE[pid]["gflop"], rel=0.02)
    assert sum(external_bytes(graph).values()) / 1e6 == pytest.approx(SUITE[pid]["compulsory_mb"], rel=0.02)
