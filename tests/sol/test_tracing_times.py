"""The recorded times of tracing and reporting: every module of the suite, each under its limit."""

import json
from pathlib import Path

import pytest

from engine.suite.cases import module_set

FILES = sorted(Path(__file__).parents[2].glob("engine/results/tracing-*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_module_was_traced_and_reported_on_in_time(path):
    results = json.loads(path.read_text(encoding="utf-8"))
    assert set(results["times"]) == set(module_set("suite59", ()))
    for key, limit in (("trace_and_report", 1500.0), ("once_traced", 60.0)):
        worst = max(results["times"].values(), key=lambda row: row[key])[key]
        assert worst == results["total"][key]["worst"] <= limit == results["total"][key]["limit"]
