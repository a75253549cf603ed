"""`python -m engine export`: a program, a recording's trial or a module, to a folder or a zip."""

import zipfile
from pathlib import Path

import pytest

from engine import __main__ as command

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "dsl" / "examples" / "suite59"


def test_a_program_of_the_suite_brings_its_module(tmp_path, capsys):
    source = SUITE / "linear_scale_leaky_f16.ucutlass"
    assert command.main(["export", str(source), "--out", str(tmp_path / "a.zip")]) == 0
    assert "with its module, class f16" in capsys.readouterr().out
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert "ucutlass-linear-scale-leaky-f16/module.py" in names


def test_a_recording_s_trial_to_a_folder(tmp_path, capsys):
    recorded = ROOT / "playground" / "recordings" / "mlp_gelu.jsonl"
    assert command.main(["export", str(recorded), "--trial", "1", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "results.json").exists() and (tmp_path / "out" / "module.py").exists()
    assert command.main(["export", str(recorded), "--out", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "words"), [("nowhere.ucutlass", "cannot read"), ("nowhere.jsonl", "cannot read"), ("BAD", "E0")]
)
def test_what_cannot_be_exported_is_refused_in_words(what, words, tmp_path, capsys):
    if what == "BAD":
        (tmp_path / "bad.ucutlass").write_text("program p(")
        what = str(tmp_path / "bad.ucutlass")
    assert command.main(["export", what, "--out", str(tmp_path / "x.zip")]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "x.zip").exists()
