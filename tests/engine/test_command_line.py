"""`python -m engine`: what it prints, writes and answers."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from engine import __main__ as command
from engine.session import recording
from sol.graph import Op, OpGraph, Tensor
from tests.engine.counting import PROGRAM


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "scale.ucutlass"
    path.write_text(PROGRAM.replace("1024", "128").replace("4096", "256").replace("128x128x64", "64x64x64"))
    return path


@pytest.fixture(autouse=True)
def no_compilers(monkeypatch):
    pytest.importorskip("torch")
    from engine.devices import modelled
    from engine.session import events

    monkeypatch.setattr(modelled.offline, "warm", lambda: None)
    monkeypatch.setattr(
        modelled.offline, "build", lambda c, _: events.TrialCompiled(c.trial, c.backend, "not compiled", 0.0)
    )


def test_optimize_prints_its_trials_and_writes_result_and_recording(program, tmp_path, capsys):
    out, record = tmp_path / "out.json", tmp_path / "one.jsonl"
    args = ["optimize", str(program), "--device", "modelled:h200", "--trials", "3", "--eps", "0"]
    assert command.main([*args, "--json", str(out), "--record", str(record)]) == 0
    output = capsys.readouterr().out
    assert "trial 1  f16" in output and "right: error" in output and "~" in output and output.rstrip().endswith("s)")
    result = json.loads(out.read_text())
    assert result["state"] == "done" and len(result["trials"]) == 3
    assert result["best"]["f16"]["program"].startswith("program scale(")
    assert recording.read(record).rows[-1].kind == "session.ended"


def test_a_recording_is_searched_again_by_its_own_text(program, tmp_path, capsys):
    record, again = tmp_path / "one.jsonl", tmp_path / "again.jsonl"
    args = ["--device", "modelled:h200", "--trials", "1"]
    assert command.main(["optimize", str(program), *args, "--record", str(record)]) == 0
    assert command.main(["optimize", str(record), *args, "--record", str(again)]) == 0
    assert recording.read(record).optimised == (program.read_text(), "program", "scale")
    assert recording.read(again).optimised == recording.read(record).optimised
    record.write_text("{}\n")
    assert command.main(["optimize", str(record), *args]) == 2
    assert "one.jsonl: line 1 is not an event" in capsys.readouterr().err


def test_json_to_standard_output_is_json_alone(program, capsys):
    interrupt = signal.getsignal(signal.SIGINT)
    assert command.main(["optimize", str(program), "--device", "modelled:h200", "--trials", "1", "--json", "-"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["state"] == "done" and "trial 1" in output.err
    assert signal.getsignal(signal.SIGINT) is interrupt, "Ctrl-C is the session's no longer"


@pytest.mark.parametrize(
    "args, words",
    [
        (["optimize", "no/such/file.py"], "python -m engine problems"),
        (["optimize", "linear_silu_f16", "--trials", "0"], "trials: a whole number"),
        (["optimize", "linear_silu_f16", "--device", "abacus"], "abacus"),
        (["optimize", "PROGRAM", "--json", "/nonexistent/out.json"], "cannot write /nonexistent/out.json"),
        (["optimize", "PROGRAM", "--record", "/nonexistent/out.jsonl"], "cannot write /nonexistent/out.jsonl"),
        (["report", "PROGRAM", "--gpu", "h900"], "h900"),
        (["report", "PROGRAM", "--class", "f64"], "f64"),
        (["trace", "BROKEN"], "E303"),
    ],
)
def test_bad_input_is_exit_status_2_and_one_message(args, words, program, capsys):
    broken = program.with_name("broken.ucutlass")
    broken.write_text(PROGRAM.replace("relu", "rely"))
    args = [{"PROGRAM": str(program), "BROKEN": str(broken)}.get(a, a) for a in args]
    assert command.main(args) == 2
    assert words in capsys.readouterr().err


def test_a_bad_setting_of_models_is_exit_status_2(program, capsys, monkeypatch):
    monkeypatch.setenv("UCUTLASS_TEMPERATURE", "hot")
    assert command.main(["optimize", str(program), "--device", "modelled:h200"]) == 2
    assert "UCUTLASS_TEMPERATURE='hot' is not valid" in capsys.readouterr().err


def test_a_refused_session_is_exit_status_2(tmp_path, capsys):
    path = tmp_path / "broken.ucutlass"
    path.write_text(PROGRAM.replace("relu", "rely"))
    assert command.main(["optimize", str(path), "--device", "modelled:h200"]) == 2
    assert "did you mean `relu`" in capsys.readouterr().out


def test_who_asks_for_a_gpu_that_is_not_there_is_told_the_way_out(program, capsys):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU")
    assert command.main(["optimize", str(program), "--device", "cuda"]) == 2
    assert "--device modelled:h200" in capsys.readouterr().err


def test_one_of_something_is_no_plural(program, capsys):
    assert command.main(["optimize", str(program), "--device", "modelled:h200", "--trials", "1", "--eps", "0"]) == 0
    output = capsys.readouterr().out
    assert "(1 trial, " in output and "The budget of 1 trial is used up" in output and "PyTorch eager" in output
    assert "1 trials" not in output and "1 operations" not in output and "x eager" not in output


def test_trace_and_report_of_a_program(program, capsys):
    assert command.main(["trace", str(program)]) == 0
    graph = json.loads(capsys.readouterr().out)
    assert graph["ops"][-1]["outputs"] == ["y"]
    assert command.main(["report", str(program), "--gpu", "h200", "--json"]) == 0
    assert "f16" in json.loads(capsys.readouterr().out)["bounds"]


def test_a_trace_without_a_report_is_exit_status_2(tmp_path, capsys, monkeypatch):
    """A module may write its trace itself."""
    x, y = Tensor("x", (4, 8), "f32", "input"), Tensor("y", (4, 8), "f32", "intermediate")
    forged = OpGraph({"x": x, "y": y}, (Op("linear", "linear", (), ("y",)),), ("x",), ("y",))
    monkeypatch.setattr("engine.trace.trace", lambda *_, **__: SimpleNamespace(graph=forged))
    path = tmp_path / "module.py"
    path.write_text("class Model: ...\n")
    assert command.main(["report", str(path)]) == 2
    assert "error: The module's trace is garbled" in capsys.readouterr().err


def test_problems_lists_every_example_with_what_it_is(capsys):
    assert command.main(["problems"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(command.PROBLEMS.glob("*.py")))
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)
    assert any(line.startswith("linear_scale_leaky ") for line in lines)


@pytest.mark.parametrize("text", [PROGRAM, "import torch\nclass Model(torch.nn.Module):\n    pass\n"])
def test_a_byte_order_mark_is_no_part_of_a_text(text, tmp_path, monkeypatch):
    path = tmp_path / "saved_by_an_editor.py"
    path.write_text(text, encoding="utf-8-sig")
    kind = "program" if text == PROGRAM else "module"
    assert command._read(str(path)) == (text, kind, "saved_by_an_editor")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeff" + text))
    assert command._read("-") == (text, kind, "standard input")


@pytest.mark.parametrize("name", ["verify", "measure"])
def test_help_of_a_raw_kernel_tells_defaults_and_exit_status(name, capsys):
    with pytest.raises(SystemExit):
        command.main([name, "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert "default: cuda where there is a GPU" in output and "default f32" in output
    assert "Exit status: 0 the candidate was accepted, 1 it was not, 2 the input was refused" in output


def test_ctrl_c_ends_in_order_with_what_was_found(program, tmp_path):
    record = tmp_path / "one.jsonl"
    args = [sys.executable, "-m", "engine", "optimize", str(program), "--device", "modelled:h200"]
    args += ["--trials", "900", "--eps", "0", "--window", "900", "--record", str(record)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    for line in child.stdout:
        if line.startswith("trial "):
            break
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read()
    assert child.wait(timeout=60) == 0
    assert "stopped: Stopped by the owner." in rest
    assert recording.read(record).rows[-1].data["state"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_leaves_a_recording_of_what_happened_until_then(number, program, tmp_path):
    record = tmp_path / "one.jsonl"
    args = [sys.executable, "-m", "engine", "optimize", str(program), "--device", "modelled:h200"]
    args += ["--trials", "900", "--eps", "0", "--window", "900", "--record", str(record)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    for line in child.stdout:
        if line.startswith("trial 2 "):
            break
    child.send_signal(number)
    child.stdout.read()
    assert child.wait(timeout=60) == -number
    killed = recording.read(record)
    assert {r.data["trial"] for r in killed.rows if r.kind == "trial.proposed"} >= {1, 2}
    assert killed.rows[0].data["source"] in killed.blobs and killed.rows[0].data["device"]["command"]
    assert command.main(["replay", str(record)]) == 0
