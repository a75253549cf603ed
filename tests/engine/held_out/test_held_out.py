"""Modules that the planner was not written for: each is taken, with PyTorch beside its programs, or refused for cause.

`results.json` has one row a module. A session on the modelled device traces it in the sandbox, plans it, verifies the
composed module against the module in float64 on the CPU, and judges it. UPDATE_HELD_OUT=1 writes the rows anew;
`python -m tests.engine.held_out.table` prints them.
"""

import functools
import json
import os
from pathlib import Path

import pytest

from engine.session import events
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

HERE = Path(__file__).parent
MODULES = sorted((HERE / "modules").glob("*.py"))
RESULTS = HERE / "results.json"


@functools.cache
def log_of(name: str) -> list:
    """The events of a session on a module."""
    return session((HERE / "modules" / f"{name}.py").read_text(), name)


def row(log: list) -> dict:
    """What became of a module: taken, with what stays PyTorch, or refused."""
    end = log[-1]
    if end.state == "refused":
        return {"outcome": "refused", "reason": end.reason}
    parts = [e for e in log if isinstance(e, events.Covered)]  # none if one program computes all of it
    stays = sorted({u["op"] for e in parts for u in e.uncovered})
    tried = any(isinstance(e, events.TrialProposed) for e in log)
    return {"outcome": "taken", "programs": sum(len(e.regions) for e in parts) or int(tried), "pytorch": stays}


def write(name: str, own: dict) -> None:
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(dict(sorted((rows | {name: own}).items())), indent=1) + "\n")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_taken_or_refused_for_cause(path):
    log = log_of(path.stem)
    own = row(log)
    if os.environ.get("UPDATE_HELD_OUT"):
        write(path.stem, own)
    assert own == json.loads(RESULTS.read_text())[path.stem]
    if own.get("programs"):
        assert_judged_clean(log)


def test_the_reference_of_complex_weights_has_their_imaginary_parts():
    """Without them PyTorch's own error would be large, and with it what a program may have."""
    (validated,) = (e for e in log_of("fourier_mixing") if isinstance(e, events.TrialValidated))
    assert validated.tolerance < 0.01


def test_a_nearly_singular_system_is_judged_where_pytorch_s_own_answer_means_something():
    """On large inputs PyTorch in TF32 is off by 220%; twice that would accept anything."""
    (validated,) = (e for e in log_of("linear_system") if isinstance(e, events.TrialValidated))
    assert validated.tolerance < 0.01 and [c["family"] for c in validated.checks] == ["own", "closed_form"]
    assert "1 round left out, where PyTorch itself, in class tf32, is off by up to 2" in validated.scope


def test_every_module_has_a_row_and_only_those_without_a_repeatable_answer_are_refused():
    rows = json.loads(RESULTS.read_text())
    assert list(rows) == [path.stem for path in MODULES] and len(rows) >= 25
    refused = {name for name, own in rows.items() if own["outcome"] == "refused"}
    assert refused == {"dropout_at_all_times", "stops_by_a_value"}
    assert all(rows[name]["reason"].startswith("Line ") for name in refused)
