"""`python -m engine verify` and `measure`: what a person reads, the JSON beside it, and the exit status."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from engine.__main__ import main
from engine.evaluate.integrity import verify
from engine.evaluate.integrity.command import report_text
from tests.engine.integrity import zoo

PROGRAM = str(zoo.HERE.parents[2] / "dsl/examples/suite59/linear_scale_leaky.ucutlass")
SOFTMAX = str(zoo.HERE / "modules" / "softmax.py")


def test_a_cheat_is_named_with_its_line_and_the_status_says_so(tmp_path, capsys):
    out = tmp_path / "made.json"
    cheat = str(zoo.HERE / "cheats" / "late_replay.py")
    assert main(["verify", cheat, "--reference", SOFTMAX, "--device", "cpu", "--json", str(out)]) == 1
    output = capsys.readouterr().out
    assert output.startswith("late_replay.py: gaming") and "line 16: keeps results and gives them again" in output
    report = json.loads(out.read_text())
    assert not report["accepted"] and {"memoized", "replayed"} <= {f["code"] for f in report["findings"]}
    assert report["rounds"][0]["family"] == "normal" and report["rounds"][-1]["right"] is False


def test_a_program_is_predicted_and_says_so(tmp_path, capsys):
    module, program = tmp_path / "module.py", tmp_path / "program.ucutlass"
    for small, path in (
        (module, zoo.HERE.parents[2] / "engine/problems/linear_scale_leaky.py"),
        (program, Path(PROGRAM)),
    ):
        small.write_text(path.read_text().replace("8192", "256"))  # of the example itself the reference takes a minute
    asked = ["measure", str(program), "--reference", str(module), "--device", "modelled:h200", "--json", "-"]
    assert main(asked) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["accepted"] and report["timed"][0]["time"]["kind"] == "predicted"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verify", "nothing.py"], "cannot read nothing.py"),
        (["verify", SOFTMAX.replace("softmax.py", "")], "a candidate is a .py, a .cu or a .ucutlass file"),
        (["measure", SOFTMAX, "--device", "cpu"], "raw code is measured on a GPU"),
        (["measure", SOFTMAX, "--device", "cuda", "--baseline", "torch"], "there is no baseline 'torch'"),
        (["measure", PROGRAM, "--device", "modelled:h200"], "the module has no tensor x of [1024, 8192]; it has x [64"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, says, capsys):
    assert main([*arguments, "--reference", SOFTMAX]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and says in message and message.count("\n") == 1


def test_a_byte_order_mark_that_an_editor_wrote_is_no_part_of_a_candidate(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"\xef\xbb\xbfdef kernel(x): return x.softmax(-1)\n")
    asked = ["verify", str(tmp_path / "mine.py"), "--reference", SOFTMAX, "--device", "cpu"]
    assert main(asked) == 0


@pytest.fixture(scope="module")
def verifier():
    shared = verify.Shared(local_user=True)
    with verify.Verifier(zoo.module("softmax"), shared=shared, local_user=True) as instance:
        yield instance
    shared.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def kernel(x)\n    return x", "line 1: could not be loaded: expected ':'"),
        ("def softmax(x): return x", "has no entry: the text defines softmax. Define `class ModelNew(nn.Module)`"),
        ("def kernel(x, y): return x", "kernel(x, y) cannot take the 1 argument given: x"),
        ("def kernel(x): x * 2", "it returned None: end it with `return`"),
        ("def kernel(x): return x[:, 1:]", "[64, 199] where the module gives [64, 200]"),
        ("import torch\0", "could not be loaded: source code string cannot contain null bytes"),
        ("import nosuch\ndef kernel(x): return x", "imports 'nosuch', which is not installed in the sandbox"),
    ],
)
def test_a_candidate_that_cannot_be_judged_is_told_what_to_change(verifier, text, says):
    output = report_text(verifier.verify(text).to_json(), "mine.py")
    assert output.startswith("mine.py: wrong") and says in output and output.count("Line 1") == 0


def test_a_weaker_sandbox_is_said_before_anything_runs(tmp_path, capsys, monkeypatch):
    from engine.evaluate.integrity import command

    monkeypatch.setattr(command.Sandbox, "strength", lambda gpu=False: "weak: no bubblewrap")
    (tmp_path / "mine.py").write_text("")
    assert main(["verify", str(tmp_path / "mine.py"), "--reference", SOFTMAX, "--device", "abacus"]) == 2
    output = capsys.readouterr().err
    assert output.startswith("note: the sandbox is weak: no bubblewrap") and "there is no device 'abacus'" in output
