"""The op graphs of the suite's modules, traced once for all tests of exports."""

import json
import subprocess
import sys

import pytest

from engine.suite.cases import ROOT
from sol.graph import OpGraph
from tests.engine.export.packages import SUITE

# Traces every text on the meta device, in a process of its own: other tests leave state in torch.
TRACING = """
import json, sys, torch
from engine.trace.capture import Capture
from engine.trace.exported import export
texts, graphs = json.load(sys.stdin), {}
for name, text in texts.items():
    names = {"__name__": "module"}
    exec(compile(text, "module.py", "exec"), names)
    with torch.device("meta"), torch.no_grad():
        model = names["Model"](*names.get("get_init_inputs", list)()).eval()
        graphs[name] = Capture(export(model, tuple(names["get_inputs"]()))).graph()
json.dump(graphs, sys.stdout)
"""


@pytest.fixture(scope="session")
def graphs():
    """Name -> op graph of every module of the test."""
    done = subprocess.run(
        [sys.executable, "-c", TRACING], input=json.dumps(SUITE), cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {name: OpGraph.from_json(json.dumps(graph)) for name, graph in json.loads(done.stdout).items()}
