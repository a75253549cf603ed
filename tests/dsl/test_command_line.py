"""`python -m dsl`: what a person and a script get."""

import io
import json
from pathlib import Path

import pytest

from dsl.__main__ import main
from dsl.check.program import check
from dsl.codes import CODES

EXAMPLES = Path(__file__).parents[2] / "dsl" / "examples"
EXAMPLE = EXAMPLES / "linear_gelu_f16.ucutlass"
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


@pytest.fixture
def three(tmp_path) -> Path:
    """A folder with a program that passes, one that does not, and one below it."""
    (tmp_path / "a.ucutlass").write_text(EXAMPLE.read_text())
    (tmp_path / "b.ucutlass").write_text(BAD)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "c.ucutlass").write_text((EXAMPLES / "mlp.ucutlass").read_text())
    return tmp_path


@pytest.mark.parametrize("command", [("check",), ("resolve",), ("compile",), ("format", "--check")])
def test_of_several_files_each_has_one_line_and_the_exit_code_is_the_worst(capsys, three, command):
    good, bad, mlp = three / "a.ucutlass", three / "b.ucutlass", three / "deeper" / "c.ucutlass"
    code, out, err = run(capsys, *command, str(good), str(bad), str(mlp))
    lines = out.splitlines()
    assert code == 1 and len(lines) == 3 and lines[0].startswith(f"{good}: ")
    assert lines[1].startswith(f"{bad}:1:{BAD.index('3 }') + 1}: E211 ")
    assert "^" in err and err.endswith("of 3 files pass\n")
    assert run(capsys, *command[:1], str(good), "--json")[0] == 0
    assert run(capsys, *command, str(good), str(bad), str(three / "none"))[0] == 2


def test_a_folder_is_its_programs(capsys, three):
    code, out, _ = run(capsys, "check", str(three))
    assert code == 1 and [line.split(":")[0].rsplit("/", 1)[1] for line in out.splitlines()] == [
        "a.ucutlass", "b.ucutlass", "c.ucutlass",
    ]  # fmt: skip
    (three / "none").mkdir()
    code, _, err = run(capsys, "check", str(three / "none"))
    assert code == 2 and "no *.ucutlass" in err


def test_json_of_several_files_is_a_line_each_with_a_fix_that_works(capsys, three):
    _, out, _ = run(capsys, "check", str(three), "--json")
    replies = {Path(t["file"]).name: t for t in map(json.loads, out.splitlines())}
    assert [t["ok"] for t in replies.values()] == [True, False, True]
    fix = replies["b.ucutlass"]["diagnostics"][0]["fix"]
    assert fix["title"].startswith("use swizzle ")
    fixed = BAD[: fix["col"] - 1] + fix["text"] + BAD[fix["end_col"] - 1 :]
    assert check(fixed).ok


def test_format_writes_files_anew_once(capsys, three):
    file = three / "deeper" / "c.ucutlass"
    file.write_text("# kept\n" + file.read_text().replace("  ", "      "))
    code, _, err = run(capsys, "format", str(file), str(EXAMPLE))
    assert code == 2 and "--write" in err
    assert run(capsys, "format", "--check", str(file))[0] == 1
    assert run(capsys, "format", "--write", str(file))[:2] == (0, f"{file}: formatted\n")
    assert file.read_text().startswith("# kept\n")
    assert run(capsys, "format", "--check", str(file))[:2] == (0, f"{file}: is formatted\n")
    assert run(capsys, "format", "--write", str(file))[:2] == (0, f"{file}: is already formatted\n")


def test_compile_writes_the_texts_of_each_back_end(capsys, three):
    out = three / "out"
    code, output, _ = run(capsys, "compile", str(three / "a.ucutlass"), str(three / "deeper"), "--out", str(out))
    assert code == 0 and len(output.splitlines()) == 2
    assert {p.name for p in out.iterdir()} == {f"{s}_{n}" for s in "ac" for n in ("cute.py", "cpp.cu", "cpp.py")}
    (three / "deeper" / "a.ucutlass").write_text(EXAMPLE.read_text())
    code, _, err = run(capsys, "resolve", str(three / "a.ucutlass"), str(three / "deeper"), "--out", str(out))
    assert code == 2 and "named a" in err


def test_a_back_end_that_refuses_the_program_is_exit_code_1(capsys):
    code, _, err = run(capsys, "compile", str(EXAMPLES / "matmul.ucutlass"), "--backend", "cute")
    assert code == 1 and "cute refuses" in err


def test_help_states_the_exit_codes(capsys):
    for words in (["--help"], ["check", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "exit codes" in capsys.readouterr().out


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
