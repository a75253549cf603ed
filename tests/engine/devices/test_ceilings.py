"""The probe of what this machine reaches: really run on the CPU, kept, and never above the limit."""

import json

import pytest

from engine.__main__ import main
from engine.devices import ceilings
from sol.hardware import load

FOUND = {"rates": {"copy": 4.2e12, "tf32": 410e12, "f16": 1e15, "f64": 1.0}, "date": "2026-11-21", "seconds": 4.0}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))


def here(monkeypatch, name="NVIDIA H200"):
    monkeypatch.setattr(ceilings.gpu_condition, "read", lambda: {"name": name, "driver": "580"})
    return ceilings.machine()[1]


def keep(about, probe=FOUND):
    path = ceilings._file(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(probe))


def test_the_probe_times_a_copy_and_products_of_this_machine():
    pytest.importorskip("torch")
    from engine.devices import ceilings_main

    probe = ceilings_main.main("cpu", each=0.01)
    assert {"copy", "f32", "f64"} <= set(probe["rates"])
    assert 1e8 < probe["rates"]["copy"] < 1e13 and 1e8 < probe["rates"]["f32"] < 1e14


def test_rates_replace_those_of_the_file_and_stay_below_the_peaks():
    hw = ceilings.applied(load("h200"), FOUND)
    assert hw.copy_rate == 4.2e12 and hw.ceiling("tf32") == 410e12
    assert hw.ceiling("f16") == load("h200").peak("f16")  # a clock above the one of the data sheet
    assert hw.ceiling("bf16") == load("h200").ceiling("bf16")  # not probed: as the file says
    assert "this machine, 2026-11-21" in hw.source["measured"]


def test_a_probed_machine_knows_its_own_device_and_no_other(monkeypatch):
    about = here(monkeypatch)
    assert ceilings.known(load("h200")) is load("h200")
    keep(about)
    assert ceilings.known(load("h200")).ceiling("tf32") == 410e12
    assert ceilings.known(load("h100-sxm")) is load("h100-sxm")


def test_another_driver_is_another_machine(monkeypatch):
    keep(here(monkeypatch))
    monkeypatch.setattr(ceilings.gpu_condition, "read", lambda: {"name": "NVIDIA H200", "driver": "590"})
    assert ceilings.known(load("h200")) is load("h200")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rates": 3}', '{"rates": {"copy": 0}}'])
def test_a_broken_file_counts_as_none(monkeypatch, text):
    about = here(monkeypatch)
    keep(about)
    ceilings._file(about).write_text(text)
    assert ceilings.stored(about) is None


def test_a_second_probe_reads_what_the_first_kept(monkeypatch, capsys):
    keep(here(monkeypatch), FOUND | {"name": "NVIDIA H200", "torch": "2.11"})
    assert main(["ceilings"]) == 0
    out = capsys.readouterr().out
    assert "tf32" in out and "83% of 494.7 published" in out


def test_a_probe_that_fails_says_why_in_one_line(monkeypatch, capsys):
    here(monkeypatch)
    monkeypatch.setattr(ceilings.sys, "executable", "/bin/false")
    assert main(["ceilings"]) == 2
    err = capsys.readouterr().err
    assert "the probe failed: it printed nothing" in err and err.count("\n") == 1
