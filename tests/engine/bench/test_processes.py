"""On several GPUs a bench has a process for each: every problem once, by whoever is free; a kill loses nothing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.bench.run import processes
from engine.devices import SessionRefused, gpus, registry
from engine.sandbox import tree

ROOT = Path(__file__).resolve().parents[3]
MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, {width})

    def forward(self, x):
        return torch.relu(self.fc(x))


def get_inputs():
    return [torch.randn(32, 64)]
"""


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "modules"
    where.mkdir()
    for n in range(8):
        (where / f"m{n}.py").write_text(MODULE.format(width=64 * (n + 1)))
    return where


@pytest.fixture
def bench(folder, tmp_path):
    """(start, out): starts `bench --gpus N` on the folder, with its results in `out`."""
    out, started = tmp_path / "b.json", []

    def start(many: int = 2) -> subprocess.Popen:
        command = [sys.executable, "-m", "engine", "bench", str(folder), "--device", "modelled:h200", "--class", "f16"]
        command += ["--gpus", str(many), "--trials", "1", "--json", str(out)]
        env = {**os.environ, "UCUTLASS_CACHE": str(tmp_path / "cache"), "UCUTLASS_COMPILERS": "none"}
        log = (tmp_path / "log").open("a")
        started.append(
            subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's jobs ignore it
            )
        )  # fmt: skip
        return started[-1]

    yield start, out
    for process in started:
        for pid in [process.pid, *tree.descendants(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def players(process: subprocess.Popen) -> list[int]:
    """The processes of its two GPUs."""
    return [pid for pid in tree.descendants(process.pid) if "gpu_main" in _command(pid)]


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def interrupted(pid: int) -> bool:
    """Return True if an interrupt waits for a process that is stopped."""
    pending = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (signal.SIGINT - 1) & 1)


def until(true, seconds: float = 120.0):
    end = time.monotonic() + seconds
    while not (answer := true()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return answer


def rows(out: Path) -> dict:
    return json.loads(out.read_text())["problems"] if out.exists() and out.stat().st_size else {}


def test_a_killed_process_leaves_its_problems_to_the_other_one_and_an_interrupted_bench_goes_on(bench, tmp_path):
    start, out = bench
    process, log = start(), tmp_path / "log"
    two = until(lambda: len(both := players(process)) == 2 and both)
    until(lambda: rows(out))
    os.kill(two[1], signal.SIGSTOP)  # its modules take a second each, and some must be left at the interrupt
    os.kill(two[0], signal.SIGKILL)
    until(lambda: "ended with signal 9; what it did not end goes to the others" in log.read_text())
    process.send_signal(signal.SIGINT)
    until(lambda: interrupted(two[1]))  # before it goes on: all of its modules together take it a few seconds
    os.kill(two[1], signal.SIGCONT)
    assert process.wait(180) == 1, log.read_text()
    assert f"stopped; the same command continues from {out}" in log.read_text()
    assert not any("gpu_main" in _command(pid) for pid in two)
    before = rows(out)
    assert 0 < len(before) < 8

    assert (file := json.loads(out.read_text()))["about"]["gpus"] == 2 and file["about"]["kind"] == "predicted"

    assert start(1).wait(400) == 0, log.read_text()
    file = json.loads(out.read_text())
    assert sorted(file["problems"]) == [f"m{n}" for n in range(8)]
    assert all(row["session"]["state"] == "done" and row["trials"][0]["ok"] for row in file["problems"].values())
    assert all(file["problems"][name] == row for name, row in before.items())
    assert log.read_text().count(" done after ") == 8, "each once"
    assert not list(tmp_path.glob("*.session"))


def test_processes_end_with_the_bench_that_started_them(bench):
    process = bench[0]()
    two = until(lambda: len(both := players(process)) == 2 and both)
    process.kill()
    process.wait()
    until(lambda: not any("gpu_main" in _command(pid) for pid in two))


@pytest.mark.parametrize(
    ("cores", "many", "each"),
    [
        ([0, 1, 2, 3], 2, [[0, 1], [2, 3]]),
        ([4, 5, 6], 2, [[4], [5]]),
        ([0, 1], 3, [[0, 1], [0, 1], [0, 1]]),
    ],
)
def test_each_process_has_an_equal_block_of_the_cores(cores, many, each):
    assert processes.parts(cores, many) == each


def test_only_gpus_of_the_first_ones_kind_are_used(monkeypatch):
    names = {"0": "NVIDIA H200", "1": "NVIDIA H100", "2": "NVIDIA H200"}
    monkeypatch.setattr(gpus.gpu_condition, "visible", lambda: list(names))
    monkeypatch.setattr(gpus.gpu_condition, "read", lambda which=None: {"name": names[which or "0"]})
    assert registry.gpu_names("cuda", "all") == ["0", "2"]
    assert registry.gpu_names("cuda", "1") == ["0"]
    with pytest.raises(SessionRefused, match="2 GPUs of its kind; write --gpus all, or a number up to that, not 3"):
        registry.gpu_names("cuda", "3")
    with pytest.raises(SessionRefused, match="write --gpus 1, not all"):
        registry.gpu_names("modelled:h200", "all")
    assert registry.gpu_names("modelled:h200", "3") == ["", "", ""]
