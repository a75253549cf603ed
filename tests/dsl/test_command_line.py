"""`python -m dsl`: what a person and a script get."""

import io
import json
from pathlib import Path

import pytest

from dsl.__main__ import main
from dsl.check import check
from dsl.codes import CODES

EXAMPLE = Path(__file__).parents[2] / "dsl" / "examples" / "linear_gelu_f16.ucutlass"
BAD = "program p(x: f16[64, 64]) -> f16[64, 64] { y = gemm(x, x.T) { swizzle 3 } return y }"


def run(capsys, *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_check_says_that_a_program_passes(capsys):
    code, out, err = run(capsys, "check", str(EXAMPLE))
    assert (code, err) == (0, "") and "linear_gelu_f16 passes" in out


def test_format_prints_what_reads_back_equal(capsys):
    _, out, _ = run(capsys, "format", str(EXAMPLE))
    assert check(out).program == check(EXAMPLE.read_text()).program


def test_resolve_leaves_nothing_to_auto(capsys):
    _, out, _ = run(capsys, "resolve", str(EXAMPLE))
    for clause in ("arch", "compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle", "store"):
        assert f" {clause} " in out


def test_a_program_from_stdin_is_rejected_with_its_place(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))
    code, out, err = run(capsys, "check", "-")
    assert code == 1 and out == "" and err.startswith("E211") and "^" in err


def test_json_is_one_document(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))
    code, out, _ = run(capsys, "check", "-", "--json")
    report = json.loads(out)
    assert code == 1 and report["ok"] is False and report["diagnostics"][0]["code"] == "E211"


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_explained(capsys, code):
    status, out, _ = run(capsys, "explain", code.lower())
    assert status == 0 and out.startswith(code) and "Passes:" in out


def test_an_unknown_code_names_the_known_ones(capsys):
    status, _, err = run(capsys, "explain", "E999")
    assert status == 1 and "E204" in err


def test_a_file_that_cannot_be_read_is_one_line(capsys, tmp_path):
    status, _, err = run(capsys, "check", str(tmp_path / "none"))
    assert status == 2 and err.count("\n") == 1
    (tmp_path / "latin1").write_bytes(b"program \xe9")
    assert run(capsys, "check", str(tmp_path / "latin1"))[0] == 2
