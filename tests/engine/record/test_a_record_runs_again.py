"""`python -m engine reproduce`: a record's programs run again, and what that says is said without a false claim."""

import json

import pytest

from engine import __main__ as main
from engine.record import (
    ID_LENGTH,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    OTHER,
    REPRODUCED,
    SAME,
    BadRecord,
    build,
    command,
    comparison,
    faults,
    link_of,
    rerun,
)  # fmt: skip
from engine.session.runner import run
from tests.engine.counting import CountingDevice, spec


@pytest.fixture(scope="module")
def record():
    emitted = list(run(spec(trials=3), device=CountingDevice(), teaches=False))
    rows = [
        {"seq": n, "kind": e.event.KIND, "t": 0.0, "data": json.loads(json.dumps(vars(e.event), default=vars))}
        for n, e in enumerate(emitted, 1)
    ]
    return build(rows, {name: text for e in emitted for name, text in e.blobs.items()})


def test_a_prediction_is_the_same_prediction(record):
    assert faults(record) == []
    trials = comparison.best_trials(record)
    device, shown = CountingDevice(), []
    outcomes = rerun.rerun(record, device, [1, *trials], shown.append)
    assert {o.verdict for o in outcomes} == {SAME} and "nothing was measured" in outcomes[0].why
    assert device.asked["validate", 1] == 1, "it is verified again"
    assert shown[0].seed != record["fields"]["seeds"]["session"], "on fresh inputs"
    assert outcomes[0].again["ms"] == outcomes[0].recorded["ms"] > 0
    assert comparison.plain(outcomes, "d", "w")["verdict"] == SAME


def test_a_candidate_that_fails_here_is_not_reproduced(record):
    (outcome,) = rerun.rerun(record, CountingDevice(fail={1: "validate"}), [1])
    assert outcome.verdict == NOT_REPRODUCED and "validate" in outcome.why


def test_what_the_record_lacks_is_named(record):
    with pytest.raises(BadRecord, match="no trial 99"):
        rerun.rerun(record, CountingDevice(), [99])
    program = record["fields"]["program"]["1"]["program"]
    without = record | {"texts": {n: t for n, t in record["texts"].items() if n != program}}
    with pytest.raises(BadRecord, match="did not share the source"):
        comparison.candidates_of(without, [1])


MEASURED = {
    "verdict": "clean", "cls": "f16", "kind": "measured", "ms": 1.0, "baseline": "eager_f16", "ratio": 2.0, "low": 1.98,
    "high": 2.02, "device": "NVIDIA H200",
}  # fmt: skip
PREDICTED = MEASURED | {"kind": "predicted", "device": "h200", "low": None, "high": None}


@pytest.mark.parametrize(
    ("recorded", "again", "verdict"),
    [
        (MEASURED, MEASURED, REPRODUCED),
        (MEASURED, MEASURED | {"ratio": 2.1, "low": 2.08, "high": 2.12}, REPRODUCED),
        (MEASURED, MEASURED | {"ratio": 1.5, "low": 1.4, "high": 1.6}, NOT_REPRODUCED),
        (MEASURED, MEASURED | {"ratio": 3.0, "low": 2.9, "high": 3.1}, NOT_REPRODUCED),
        (MEASURED, MEASURED | {"verdict": "wrong"}, NOT_REPRODUCED),
        (MEASURED, {}, NOT_REPRODUCED),
        ({}, MEASURED, NOT_COMPARABLE),
        (MEASURED, PREDICTED, NOT_COMPARABLE),
        (PREDICTED, MEASURED, NOT_COMPARABLE),
        (MEASURED, MEASURED | {"device": "NVIDIA H100"}, NOT_COMPARABLE),
        (MEASURED, MEASURED | {"baseline": "eager_tf32"}, NOT_COMPARABLE),
        (PREDICTED, PREDICTED, SAME),
        (PREDICTED, PREDICTED | {"ms": 1.1}, OTHER),
    ],
)
def test_two_runs_are_compared(recorded, again, verdict):
    assert comparison.compare(recorded, again)[0] == verdict


def test_the_worst_trial_stands_for_the_run():
    def one(verdict):
        return comparison.Outcome(1, verdict, "", {}, {})

    assert comparison.plain([one(REPRODUCED), one(NOT_REPRODUCED)], "d", "w")["verdict"] == NOT_REPRODUCED
    assert comparison.plain([one(REPRODUCED), one(NOT_COMPARABLE)], "d", "w")["verdict"] == NOT_COMPARABLE


def test_the_command_attaches_the_run_to_the_file(record, tmp_path, monkeypatch, capsys):
    file, out = tmp_path / "record.json", tmp_path / "run.json"
    file.write_text(json.dumps(record))
    again = rerun.rerun
    monkeypatch.setattr(rerun, "rerun", lambda r, device, *more: again(r, CountingDevice(), *more))
    words = ["reproduce", str(file), "--device", "modelled:h200"]
    assert main.main([*words, "--json", str(out)]) == 0
    attached = json.loads(file.read_text())
    assert [r["verdict"] for r in attached["reproductions"]] == [json.loads(out.read_text())["verdict"]] == [SAME]
    assert faults(attached) == [] and "0 of 0 reproduced" in capsys.readouterr().out
    attached["fields"]["samples"]["trials"]["1"]["ratio"] = 9.0
    file.write_text(json.dumps(attached))
    assert main.main(words) == 2
    assert "samples.trials.1.ratio: the log says something else" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[1]", "{}"])
def test_a_file_that_is_no_record_is_refused(tmp_path, text, capsys):
    (tmp_path / "x.json").write_text(text)
    assert main.main(["reproduce", str(tmp_path / "x.json"), "--check"]) == 2
    assert main.main(["reproduce", str(tmp_path / "none.json"), "--check"]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_snapshots_link_fixes_its_record(record, monkeypatch):
    monkeypatch.setattr(command, "_fetched", lambda address: record)
    name = link_of(record["id"])
    assert len(name) == ID_LENGTH
    assert command.load(f"http://127.0.0.1:1/s/{name}?trial=3")[0] is record
    with pytest.raises(BadRecord, match="the link is of another record"):
        command.load(f"http://127.0.0.1:1/s/{'x' * ID_LENGTH}")
