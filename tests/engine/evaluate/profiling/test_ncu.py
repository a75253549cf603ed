"""Nsight Compute's command line: found where it is installed, called for one run, and its CSV read."""

import csv
import io

import pytest

from engine.evaluate.profiling import ncu, words
from tests.engine.evaluate.profiling.reports import METRICS, report


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_it_is_found_on_path_then_in_cuda_home_then_in_the_usual_folders(tmp_path):
    usual = executable(tmp_path / "usr/local/cuda/bin/ncu")
    folders = [str(usual.parent), str(tmp_path / "opt/nsight-compute")]
    assert ncu.find({"PATH": str(tmp_path)}, folders) == usual
    home = executable(tmp_path / "home/bin/ncu")
    environ = {"PATH": "", "CUDA_HOME": str(tmp_path / "home")}
    assert ncu.find(environ, folders) == home
    on_path = executable(tmp_path / "path/ncu")
    assert ncu.find(environ | {"PATH": str(on_path.parent)}, folders) == on_path
    assert "/usr/local/cuda/bin" in ncu.FOLDERS


def test_of_several_versions_the_newest_is_taken_and_what_cannot_run_is_passed_over(tmp_path):
    executable(tmp_path / "2024.3.2/ncu")
    newest = executable(tmp_path / "2025.1.0/ncu")
    executable(tmp_path / "2025.2.0/ncu").chmod(0o644)
    assert ncu.find({"PATH": ""}, [str(tmp_path)]) == newest
    assert ncu.find({"PATH": ""}, [str(tmp_path / "nothing")]) is None


def test_a_call_asks_for_raw_csv_in_base_units_of_the_marked_run_with_the_speed_of_light_first(tmp_path):
    args = ncu.command(tmp_path / "ncu", tmp_path / "out.csv", ["python", "x.py"])
    assert args[-2:] == ["python", "x.py"] and args[args.index("--profile-from-start") + 1] == "off"
    assert args[args.index("--page") + 1] == "raw" and args[args.index("--print-units") + 1] == "base"
    assert args[args.index("--section") + 1] == "SpeedOfLight" and "--csv" in args


def test_a_report_has_a_kernel_a_row_numbers_with_commas_and_lines_of_its_own():
    product, copy = ncu.read(report())
    assert (product.name, product.grid, product.block) == ("sm90_gemm(Params, int)", "(132, 1, 1)", "(384, 1, 1)")
    assert product.ns == 104_320 and product.values["dram__bytes_read.sum"] == 134_217_728
    assert copy.values["sm__throughput.avg.pct_of_peak_sustained_elapsed"] == 12.5
    assert not {"ID", "Device", "CC"} & product.values.keys()


@pytest.mark.parametrize(
    ("unit", "text", "base"),
    [("Kbyte", "2", 2e3), ("Gbyte/s", "1.5", 1.5e9), ("us", "3", 3e3), ("msecond", "1", 1e6), ("%", "9", 9.0),
     ("byte/block", "7", 7.0), ("Ghz", "1.7", 1.7e9), ("register/thread", "168", 168.0), ("Mbyte/block", "1", 1e6)],
)  # fmt: skip
def test_units_of_a_version_that_knows_no_base_are_scaled(unit, text, base):
    (kernel,) = ncu.read(report((("k", 1),), {"a__b.sum": (unit, text)}))
    assert kernel.values["a__b.sum"] == base


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", '"ID","Kernel Name"\n', "a,b\n1,2\n"])
def test_a_text_without_kernels_has_none(text):
    assert ncu.read(text) == []


def test_a_metric_that_a_chip_lacks_is_left_out():
    (kernel,) = ncu.read(report((("k", 1),), {**METRICS, "sm__x.sum": ("", "n/a"), "sm__y.sum": ("", "")}))
    assert not {"sm__x.sum", "sm__y.sum"} & kernel.values.keys()


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "only an administrator"),
        ("==WARNING== No kernels were profiled.", "it saw no kernel"),
        ("==ERROR== The application returned an error code (1).", "The application returned an error code (1)"),
        ("nothing said", ""),
    ],
)
def test_a_refusal_is_a_sentence(log, why):
    assert why in ncu.refusal(log) and bool(ncu.refusal(log)) == bool(why)


def test_the_words_begin_with_the_speed_of_light_and_have_the_longest_kernel_first():
    text = words.in_words(3, ncu.read(report((("cast_kernel", 2), ("sm90_gemm", 1)))))
    lines = text.splitlines()
    assert lines[0].startswith("Trial 3: 2 kernels by Nsight Compute, 0.1064 ms in all.")
    assert lines[2] == "sm90_gemm: 0.1043 ms, 98% of it; grid (132, 1, 1), block (384, 1, 1)"
    assert lines[3] == "- Speed of light: compute 69.9%, memory 41.3%, device memory 33.1%, cycles elapsed 182,400"
    assert "read from device memory 134 MB, written to device memory 8.39 MB" in text
    assert "waiting on long scoreboard 2.12 cycles, waiting on barrier 0.25 cycles" in text and "selected" not in text
    assert text.index("sm90_gemm") < text.index("cast_kernel")


def test_about_thirty_metrics_are_read_and_each_has_its_own_words():
    metrics = [m for group in words.GROUPS.values() for m in group]
    assert 28 <= len(metrics) <= 34 and len({m.name for m in metrics}) == len({m.words for m in metrics}) == len(
        metrics
    )
    assert next(iter(words.GROUPS)) == "Speed of light"


def test_counts_are_of_all_kernels_and_a_figure_that_one_kernel_lacks_is_left_out():
    kernels = ncu.read(report((("cast_kernel", 2), ("sm90_gemm", 1))))
    counts = ncu.counts(kernels)
    assert counts["memory"] == 134_217_728 + 8_388_608 + 1_024 + 2_048
    assert counts["instructions"] == 4_210_688 + 65_536
    assert counts["occupancy"] == pytest.approx((0.183 * 104_320 + 0.872 * 2_080) / 106_400, rel=1e-5)
    lacking = {name: row for name, row in METRICS.items() if name != "dram__bytes_write.sum"}
    assert set(ncu.counts(ncu.read(report(metrics=lacking)))) == {"instructions", "occupancy"}
    assert ncu.counts([]) == {}


def test_many_kernels_are_cut():
    text = words.in_words(1, ncu.read(report(tuple((f"k{i}", 2) for i in range(9)))))
    assert text.endswith("3 shorter kernels are left out.\n")
    assert len(list(csv.reader(io.StringIO(report())))) == 5
