"""`python -m engine verify` and `measure`: what a person reads, the JSON beside it, and the exit status."""

import json

import pytest

pytest.importorskip("torch")

from engine.__main__ import main
from tests.engine.integrity import zoo

SOFTMAX = str(zoo.HERE / "modules" / "softmax.py")


def test_a_cheat_is_named_with_its_line_and_the_status_says_so(tmp_path, capsys):
    out = tmp_path / "made.json"
    cheat = str(zoo.HERE / "cheats" / "late_replay.py")
    assert main(["verify", cheat, "--reference", SOFTMAX, "--device", "cpu", "--json", str(out)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("late_replay.py: gaming") and "line 15: keeps results and gives them again" in said
    made = json.loads(out.read_text())
    assert not made["accepted"] and {"memoized", "replayed"} <= {f["code"] for f in made["findings"]}
    assert made["rounds"][0]["family"] == "normal" and made["rounds"][-1]["right"] is False


def test_a_program_is_predicted_and_says_so(capsys):
    program = str(zoo.HERE.parents[2] / "dsl/examples/suite59/linear_scale_leaky.ucutlass")
    asked = ["measure", program, "--reference", "linear_scale_leaky", "--device", "modelled:h200", "--json", "-"]
    assert main(asked) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["accepted"] and made["timed"][0]["time"]["kind"] == "predicted"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verify", "nothing.py"], "cannot read nothing.py"),
        (["verify", SOFTMAX.replace("softmax.py", "")], "a candidate is a .py, a .cu or a .ucutlass file"),
        (["measure", SOFTMAX, "--device", "cpu"], "raw code is measured on a GPU"),
        (["measure", SOFTMAX, "--device", "cuda", "--baseline", "torch"], "there is no baseline 'torch'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, says, capsys):
    assert main([*arguments, "--reference", SOFTMAX]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and says in said and said.count("\n") == 1
