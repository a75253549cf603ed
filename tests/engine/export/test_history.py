"""A trial of a recording as a package: what the trial ran, the module it must equal, and its results."""

import json
from pathlib import Path

import pytest

from engine.export import ExportError, history, package
from engine.session import recording

RECORDINGS = sorted((Path(__file__).parents[3] / "playground" / "recordings").glob("*.jsonl"))
DIV = next(path for path in RECORDINGS if path.stem == "linear_div_gelu")


def rows(path):
    log = recording.read(path)
    return [(r.kind, r.data) for r in log.rows], log.blobs


def test_a_raw_kernel_is_no_package():
    log, blobs = rows(DIV.with_name("kernels_by_hand.jsonl"))
    with pytest.raises(ExportError, match="trial 1 is a raw kernel"):
        history.of_trial(log, blobs.get, 1)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_the_trial_that_the_sessions_page_shows_is_taken_with_what_it_ran(path):
    log, blobs = rows(path)
    kernels = {d["trial"] for kind, d in log if kind == "trial.proposed" and d.get("form") == "kernel"}
    better = [d for kind, d in log if kind == "trial.judged" and d["best"] and d["speedup"] > 1]
    judged = [d for d in better if d["trial"] not in kernels]
    if not judged:
        why = "is a raw kernel" if better else "no program of this session is better than PyTorch"
        with pytest.raises(ExportError, match=why):
            history.of_trial(log, blobs.get)
        return
    last = {d["cls"]: d for d in judged}
    best = max(last.values(), key=lambda d: d["speedup"])
    what = history.of_trial(log, blobs.get)
    measured = what.results.get("whole_module", what.results)  # in a session of regions the trial's own is one's
    assert what.results["trial"] == best["trial"] and measured["judged"]["ms"] == best["ms"]
    assert what.text in blobs.values() and what.module in blobs.values()
    files = package.files(what)
    figures = next(text for name, text in files.items() if name.endswith("/figures.html"))
    report = json.loads(blobs[next(d for kind, d in log if kind == "reported")["report"]])
    assert figures.count("<svg") == 6 + bool(report["levers"]), "one of them is of the levers"
    results = json.loads(next(text for name, text in files.items() if name.endswith("/results.json")))
    assert results["trial"] == best["trial"] and results["session"]["device"]
    cute = next((text for name, text in files.items() if name.endswith("/cute_kernel.py")), None)
    generated = next(d for kind, d in log if kind == "trial.generated" and d["trial"] == best["trial"])
    if "cute" in generated["sources"]:
        assert cute == blobs[generated["sources"]["cute"]["text"]]


def test_a_trial_by_its_number():
    log, blobs = rows(DIV)
    assert history.of_trial(log, blobs.get, 2).results["trial"] == 2


def test_what_is_not_there_is_said():
    log, blobs = rows(DIV)
    with pytest.raises(ExportError, match="no trial 99"):
        history.of_trial(log, blobs.get, 99)
    with pytest.raises(ExportError, match="are gone"):
        history.of_trial(log, {}.get, 1)
    with pytest.raises(ExportError, match="no trial of this session"):
        history.of_trial([row for row in log if not row[0].startswith("trial.")], blobs.get)
    without = [row for row in log if row[0] != "trial.generated"]
    with pytest.raises(ExportError, match="no code to export"):
        history.of_trial(without, blobs.get, 1)
