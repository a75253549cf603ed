"""The report of a session is a blob of its log: every process that makes it makes the same text."""

import os
import subprocess
import sys

SCRIPT = """
from dsl.check.program import check
from engine.strategies.planner.lowering import program_graph
from sol.hardware import load
from sol.report import report

text = "program small(x: f16[128, 256], w: f16[256, 256], b: f32[256]) -> f16[128, 256] {"
text += "  y = gemm(x, w.T) { epilogue relu(acc + b[n]) }  return y }"
print(report(program_graph.graph_of(check(text).program), load("h200"), asked=("f16",)).to_json())
"""


def report_text(seed: int) -> str:
    """The report of a process in which sets have an order of their own."""
    environ = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_no_figure_depends_on_the_order_of_a_set():
    assert report_text(0) == report_text(4)
