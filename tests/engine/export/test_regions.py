"""A program that is a region of its module is exported as that, with its own time and never the module's."""

import json

import pytest

from engine.evaluate.evaluator import Evaluator
from engine.export import forms, history, package
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.priced import Priced
from tests.engine.strategies.test_regions import experts

MODULE = "# the module"


@pytest.fixture(scope="module")
def session():
    """(rows, blobs) of a session on a module in regions."""
    text = experts().to_json()
    blobs = {events.blob_name(text): text, events.blob_name(MODULE): MODULE}
    log = [
        events.SessionStarted(
            "t", events.blob_name(MODULE), "module", {"hardware": "h200"}, "planner", ["tf32"], {}, 0
        ),
        events.Traced(events.blob_name(text), len(experts().ops), 0.1),
    ]
    spec = SessionSpec(source=MODULE, device="modelled:h200", classes=("tf32",), trials=3, eps=0.0)
    past = list(enumerate(log, 1))
    for e in run(spec, device=Evaluator(Priced("h200")), history=past, read_blob=blobs.__getitem__, teaches=False):
        log.append(e.event)
        blobs |= e.blobs
    return [(e.KIND, events.encode(e)) for e in log], blobs


@pytest.fixture(scope="module", params=[1, 2, 3])
def exported(session, request):
    rows, blobs = session
    what = history.of_trial(rows, blobs.get, request.param)
    measured = next(d for k, d in rows if k == "trial.measured" and d["trial"] == request.param)
    regions = next(d for k, d in rows if k == "covered")["regions"]
    return what, package.files(what), measured, regions


def named(files, ending):
    return next(text for name, text in files.items() if name.endswith(ending))


def test_files_are_named_after_the_region(exported):
    _, files, measured, regions = exported
    number, many = measured["part"]["region"], len(regions)
    assert many > 1
    for name in files:
        assert name.partition("/")[0].endswith(f"-region-{number}-of-{many}")
    assert any(f"_region_{number}_of_{many}/__init__.py" in name for name in files)
    assert f"region-{number}-of-{many}" in named(files, "pyproject.toml")


def test_readme_and_facts_say_which_region_and_its_own_time(exported):
    _, files, measured, regions = exported
    part, many = measured["part"], len(regions)
    readme, facts = named(files, "README.md"), json.loads(named(files, "facts.json"))
    row = next(r for r in regions if r["number"] == part["region"])
    assert f"This program is region {part['region']} of {many} of the module: {row['words']}" in readme
    assert f"Alone it takes {part['region_ms']:.3g} ms (predicted)" in readme
    assert f"PyTorch takes {part['region_eager_ms']:.3g} ms for the same operations" in readme
    assert f"{measured['time']['ms']:.3g} ms" not in readme
    region = facts["region"]
    assert (region["number"], region["of"], region["ms"]) == (part["region"], many, part["region_ms"])
    assert region["ops"] == row["ops"] and region["outputs"] == row["outputs"]


def test_the_modules_time_stands_under_the_modules_name(exported):
    _, files, measured, _ = exported
    results = json.loads(named(files, "results.json"))
    assert results["region"]["ms"] == measured["part"]["region_ms"]
    assert "measured" not in results and "judged" not in results
    assert results["whole_module"]["measured"]["time"]["ms"] == measured["time"]["ms"]


def test_the_program_is_bound_to_what_the_log_says(session, exported):
    what, _, measured, _ = exported
    rows, _ = session
    generated = next(d for k, d in rows if k == "trial.generated" and d["trial"] == measured["trial"])
    assert generated["region"] == measured["part"]["region"]
    paths = {b["name"]: experts().tensors[b["tensor"]].path for b in generated["inputs"]}
    assert what.tensors == {name: path for name, path in paths.items() if path}


def test_the_check_does_not_hold_a_region_against_the_module(exported):
    text = named(exported[1], "check.py")
    assert "exists() and not region" in text and "computes that part alone" in text


def test_an_older_log_without_bindings_or_regions_of_trials_is_exported(session):
    rows, blobs = session
    old = [
        (k, {n: v for n, v in d.items() if k != "trial.generated" or n not in ("inputs", "region")}) for k, d in rows
    ]
    assert history.of_trial(old, blobs.get, 1).region["number"] == 2
    unmeasured = [(k, d) for k, d in old if k not in ("trial.measured", "trial.judged")]
    what = history.of_trial(unmeasured, blobs.get, 1)
    assert what.region["number"] == 0 and "one-of-" in next(iter(package.files(what)))


def test_a_module_that_is_one_program_is_no_region(session):
    rows, blobs = session
    whole = [(k, d) for k, d in rows if k != "covered"]
    what = history.of_trial(whole, blobs.get, 1)
    assert what.region is None and "region" not in next(iter(package.files(what)))


@pytest.mark.parametrize("trial", [1, 2, 3])
def test_the_whole_module_has_the_programs_that_the_trial_ran_with(session, trial):
    rows, blobs = session
    part = next(d["part"] for k, d in rows if k == "trial.measured" and d["trial"] == trial)
    what = history.of_session(rows, blobs.get, trial)
    assert len(what.placed) == part["programs"] and part["region"] in {p.number for p in what.placed}
    inside = {name for p in what.placed for name in p.ops}
    assert {op.name for op in what.rest} == {op.name for op in experts().ops} - inside
    files = forms.files(what)
    assert {f"region_{p.number}.ucutlass" for p in what.placed} <= {name.partition("/")[2] for name in files}
    steps = json.loads(named(files, "composition.json"))["steps"]
    assert len(steps) == len(what.placed) + len(what.rest)
    assert f"{len(what.rest)} operation" in named(files, "README.md")


def test_a_module_that_was_timed_as_one_graph_replays_one_graph(session):
    rows, blobs = session
    assert not history.of_session(rows, blobs.get, 1).captured
    as_graph = [
        (k, {**d, "part": {**d["part"], "graph": True}} if k == "trial.measured" and d["trial"] == 1 else d)
        for k, d in rows
    ]
    files = forms.files(history.of_session(as_graph, blobs.get, 1))
    assert json.loads(named(files, "composition.json"))["captured"] is True
    assert "Calls on a GPU replay one CUDA graph" in named(files, "README.md")
    assert "class CapturedCall" in named(files, "/_captured.py")
    plain = forms.files(history.of_session(rows, blobs.get, 1))
    assert json.loads(named(plain, "composition.json"))["captured"] is False
    assert "CUDA graph, because" not in named(plain, "README.md")


def test_a_module_that_was_timed_with_a_compiled_rest_compiles_it_again(session):
    rows, blobs = session
    compiled = [
        (k, {**d, "part": {**d["part"], "rest": "inductor"}} if k == "trial.measured" and d["trial"] == 1 else d)
        for k, d in rows
    ]
    files = forms.files(history.of_session(compiled, blobs.get, 1))
    steps = json.loads(named(files, "composition.json"))["steps"]
    plain = json.loads(named(forms.files(history.of_session(rows, blobs.get, 1)), "composition.json"))["steps"]
    flat = [one for step in steps for one in step.get("fused", [step])]
    assert flat == plain and any("fused" in step for step in steps)
    assert "is compiled by Inductor at the first call" in named(files, "README.md")
    assert "class Later" in named(files, "/_fused.py") and "class Fused" in named(files, "/_fused_calls.py")
