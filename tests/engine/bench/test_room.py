"""The study of memory: what a session holds is set beside its module's own, and what it missed is said."""

import itertools
import json

from engine.bench.studies import room
from engine.devices.gpus import CONTEXT
from tests.engine.graphs import linear

GB = 10**9


def row(*trials, peak=0, own=4 * GB, end="done: "):
    rows = [{"trial": n, "seconds": {"validated": s}, "code": c, "text": c} for n, (s, c) in enumerate(trials, 1)]
    return room.about({"module": "m", "own_bytes": own, "peak_bytes": peak, "trials": rows, "end": end})


def test_the_most_that_is_held_counts_from_the_start():
    samples = itertools.chain([80 * GB, 70 * GB, 50 * GB], itertools.repeat(75 * GB))
    with room.Held(lambda: next(samples)) as peak:
        while peak.least != 50 * GB:
            pass
    assert peak.most == 30 * GB
    with room.Held(lambda: None) as nothing:
        pass
    assert nothing.most is None


def test_a_module_s_own_memory_is_what_goes_in_and_out():
    graph = linear(rows=10, k=20, n=30, tail=[("relu", {})])
    assert room.own_bytes(graph) == 4 * (10 * 20 + 30 * 20 + 30 + 10 * 30)


def test_the_peak_is_in_units_of_the_module_s_own_memory():
    assert row((1.0, ""), peak=10 * GB + 2 * CONTEXT)["times"] == 2.5
    assert not row((1.0, ""), peak=10 * GB + 2 * CONTEXT)["faults"]
    assert row((1.0, ""), peak=11 * GB + 2 * CONTEXT)["faults"] == ["2.75 times its own memory, the aim is 2.5"]
    assert row((1.0, ""), peak=None)["times"] is None


def test_a_lack_of_memory_is_a_fault_and_waiting_for_it_twice_another():
    once = row((20.0, "out_of_memory"), (0.1, "out_of_memory"), (1.0, ""))
    assert once["faults"] == ["trial 1: out_of_memory", "trial 2: out_of_memory"]
    twice = row((20.0, "out_of_memory"), (15.0, "gpu_memory"), (1.0, ""))
    assert twice["faults"][-1] == "the same lack of memory took 20 s, 15 s"
    assert "no trial has a verdict; done: " in row((1.0, "wrong_result"))["faults"]


def test_the_command_runs_without_a_gpu(tmp_path, capsys):
    out = tmp_path / "room.json"
    command = ["--device", "modelled:h200", "--only", "linear_silu_f16", "--trials", "1", "--json", str(out)]
    assert room.main(command) == 0
    (one,) = json.loads(out.read_text())["results"]
    assert one["module"] == "linear_silu_f16" and one["peak_bytes"] is None and 10**8 < one["own_bytes"] < 3 * 10**8
    assert [t["code"] for t in one["trials"]] == [""] and "ok  linear_silu_f16" in capsys.readouterr().out
