"""Every GPU file is complete and sourced; a file of the user's own gives one clear error for a bad field."""

import pytest

from sol.hardware import CLASSES, HardwareError, available, from_toml, load

NAMES = [n for n in available() if n != "cpu"]
GOOD = """
name = "mine"
title = "My GPU"
arch = "sm_90a"
sms = 100
boost_mhz = 1500
memory_tb_s = 2.0
memory_gb = 40
l2_mib = 40
shared_block = 166912
shared_sm = 167936
registers_sm = 65536
sfu_per_clock_sm = 16
[peaks]
f32 = 20.0
tf32 = 160.0
[source]
peaks = "data sheet"
memory = "data sheet"
"""


def test_the_eight_gpus_and_the_cpu_are_there():
    assert set(available()) == {
        "h200", "h100-sxm", "h100-pcie", "a100-80gb", "b200", "l40s", "rtx4090", "rtx5090", "cpu",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_and_peaks_rise_with_lower_precision(name):
    hw = load(name)
    assert {"peaks", "memory", "clocks", "l2", "l2_bandwidth", "limits"} <= set(hw.source)
    assert all(len(text) > 15 for text in hw.source.values())
    peaks = [hw.peak(c) for c in ("f32", "tf32", "f16", "fp8") if c in hw.peaks]
    assert peaks == sorted(peaks)
    assert hw.l2_bandwidth > hw.bandwidth > 1e11
    assert hw.copy_rate <= hw.bandwidth and all(hw.ceiling(c) <= hw.peak(c) for c in hw.classes())


@pytest.mark.parametrize("name", NAMES)
def test_the_fp32_peak_is_lanes_times_two_times_clock(name):
    hw = load(name)
    lanes = 64 if name.startswith("a100") else 128
    assert hw.peaks["f32"] == pytest.approx(hw.sms * lanes * 2 * hw.boost_mhz * 1e6, rel=0.01)


def test_the_h200_carries_what_we_measured():
    h200 = load("h200")
    assert h200.peak("bf16") == 989.4e12 and h200.ceiling("bf16") == 838.5e12
    assert h200.ceiling("tf32") == 434e12
    assert h200.copy_rate == 4.268e12
    assert h200.ridge("bf16") == pytest.approx(206, abs=1)


def test_peaks_follow_the_clock_and_bandwidth_does_not():
    h200 = load("h200")
    slow = h200.at_clock(915)  # half the clock at which the tensor peaks are published
    assert slow.peak("f16") == pytest.approx(h200.peak("f16") / 2)
    assert slow.peaks["f32"] == pytest.approx(h200.peaks["f32"] * 915 / 1980)
    assert slow.bandwidth == h200.bandwidth
    with pytest.raises(HardwareError, match=r"MHz"):
        h200.at_clock(0)


def test_the_cpu_is_described_by_the_machine():
    cpu = load("cpu")
    assert cpu.kind == "cpu" and cpu.sms >= 1
    assert 1e9 < cpu.bandwidth < 5e12 and cpu.peak("f32") > 1e9
    assert "proc" in cpu.source["peaks"]


def test_a_class_the_chip_lacks_is_named_with_those_it_has():
    with pytest.raises(HardwareError, match=r"A100.*no fp8.*f64, f32, tf32, f16, bf16"):
        load("a100-80gb").peak("fp8")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(HardwareError, match=r"'h300'.*h200"):
        load("h300")


def test_a_users_own_file_loads_by_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    hw = load(path)
    assert hw.title == "My GPU" and hw.peak("tf32") == 160e12
    assert hw.classes() == tuple(c for c in CLASSES if c in ("f32", "tf32"))
    assert hw.sfu == 16 * 100 * 1500e6


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("sms = 100", "", "sms must be a positive number .*missing"),
        ("sms = 100", "sms = 'many'", "sms must be a positive number .*'many'"),
        ("sms = 100", "sms = 99.5", "sms must be a whole number .*99.5"),
        ("memory_tb_s = 2.0", "memory_tb_s = -1", "memory_tb_s must be a positive number"),
        ("memory_tb_s = 2.0", "memory_tb_s = inf", "memory_tb_s must be a positive number"),
        ("f32 = 20.0", "f23 = 20.0", r"\[peaks\] f23 is unknown"),
        ("f32 = 20.0", "", r"\[peaks\] needs at least f32"),
        ("tf32 = 160.0", "tf32 = true", r"\[peaks\] tf32 must be a positive number"),
        ('name = "mine"', 'nam = "mine"', "unknown field 'nam'"),
        ('title = "My GPU"', "title = 3", "title must be a text"),
        ('memory = "data sheet"', "", r"\[source\] memory must say where"),
        ("[peaks]", "[peaks", "not TOML"),
    ],
)
def test_a_bad_field_is_named(old, new, says):
    with pytest.raises(HardwareError, match=r"^mine.toml: .*" + says):
        from_toml(GOOD.replace(old, new), "mine.toml")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(HardwareError, match=r"cannot read"):
        load(tmp_path / "none.toml")
