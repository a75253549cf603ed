"""A wrong argument of a study with the rehearsal ends it before its first session, in one sentence."""

import importlib

import pytest

MODELLED = ["--device", "modelled:h200"]


@pytest.mark.parametrize(
    ("module", "wrong", "words"),
    [
        ("rehearsed", [*MODELLED, "--trials", "0"], "--trials one from 1 to 1000"),
        ("rehearsed", [*MODELLED, "--trials", "5000"], "--trials one from 1 to 1000"),
        ("rehearsed", [*MODELLED, "--at-once", "0"], "--at-once is a whole number from 1"),
        ("rehearsed", [*MODELLED, "--json", "/no/folder/x.json"], "name a file in a folder that exists"),
        ("rehearsed", ["--only", "nobody"], "nobody is neither an arm nor a problem of this study"),
        ("rehearsed", [*MODELLED, "--skill", "1.5"], "--skill 1.5 is no share; write a number from 0 to 1"),
        ("shape_groups.__main__", [*MODELLED, "--skill", "2"], "--skill 2 is no share; write a number from 0 to 1"),
        ("shape_groups.__main__", [*MODELLED, "--skill", "nan"], "--skill nan is no share"),
        ("experiments.__main__", ["--only", "recorded", "--json", "/no/folder/x.json"], "in a folder that exists"),
        ("experiments.__main__", ["--only", "recorded", "--json", "x.md"], "results in x.md; name x.json"),
    ],
)
def test_a_wrong_argument_is_one_sentence(module, wrong, words, capsys):
    study = importlib.import_module(f"engine.bench.studies.{module}")
    with pytest.raises(SystemExit):
        study.main(wrong)
    assert words in capsys.readouterr().err.strip().splitlines()[-1]
