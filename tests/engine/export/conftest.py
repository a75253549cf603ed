"""The op graphs of the suite's modules, traced once in a test run for all tests of exports."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

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
    path = Path(os.environ["UCUTLASS_TEST_RUN"]) / "suite_graphs.json"  # shared by the workers of pytest-xdist
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker traces, the others wait for it
        if not path.exists():
            command = [sys.executable, "-c", TRACING]
            done = subprocess.run(
                command, input=json.dumps(SUITE), cwd=ROOT, capture_output=True, text=True, timeout=900
            )
            assert done.returncode == 0, done.stderr[-4000:]
            path.write_text(done.stdout)
    return {name: OpGraph.from_json(json.dumps(graph)) for name, graph in json.loads(path.read_text()).items()}
