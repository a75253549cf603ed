"""The session of a recording is played once more, on the device that is asked for, and recorded under its name."""

import json

import pytest

torch = pytest.importorskip("torch")

from engine.__main__ import main as engine  # noqa: E402
from engine.bench.studies import rehearsed  # noqa: E402
from engine.session import recording  # noqa: E402

MODULE = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(64, 128)
    def forward(self, x):
        return torch.relu(self.l(x))
def get_inputs():
    return [torch.randn(32, 64)]
"""
MODELLED = ["--device", "modelled:h200"]


@pytest.fixture
def recorded(tmp_path):
    source, out = tmp_path / "layer.py", tmp_path / "layer.jsonl"
    source.write_text(MODULE)
    options = ["--class", "f16", "--trials", "1", "--seed", "7", "--record", str(out)]
    assert engine(["optimize", *MODELLED, *options, str(source)]) == 0
    return out


def test_the_same_session_is_played_again(recorded, tmp_path, capsys):
    again, rows = tmp_path / "again", tmp_path / "rows.json"
    arguments = [*MODELLED, "--again", str(recorded), "--recordings", str(again), "--json", str(rows)]
    assert rehearsed.main(arguments) == 0
    old, new = (recording.read(path).rows for path in (recorded, again / recorded.name))
    for part in ("source", "strategy", "options", "classes", "budget", "seed"):
        assert new[0].data[part] == old[0].data[part], part
    assert new[-1].kind == "session.ended" and new[-1].t > old[-1].t
    assert [r["problem"] for r in json.loads(rows.read_text())["rows"]] == ["layer"]
    assert "ok  layer, planner: The budget of 1 trial is used up." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--again needs --recordings DIR"),
        (["--recordings", "{folder}"], "the folder of the recordings themselves: name another one"),
        (["--recordings", "{folder}/again"], "no.jsonl: line 1 is not an event of version 1"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(more, says, tmp_path, capsys):
    (tmp_path / "no.jsonl").write_text("hello\n")
    arguments = [*MODELLED, "--again", str(tmp_path / "no.jsonl"), *(m.format(folder=tmp_path) for m in more)]
    with pytest.raises(SystemExit):
        rehearsed.main(arguments)
    assert says in capsys.readouterr().err
