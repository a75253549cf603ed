"""How a file of results begins, and what is said where there is no GPU."""

import datetime

from engine.evaluate.timing import gpu_condition


def test_a_file_of_results_begins_with_its_day_machine_tools_and_command():
    header = gpu_condition.about(
        "python -m engine.bench.studies.steady", {"name": "NVIDIA H200", "driver": "580", "sm_mhz": 1980}
    )
    assert list(header) == ["date", "gpu", "driver", "toolchain", "command"]
    assert (header["gpu"], header["driver"], header["command"]) == (
        "NVIDIA H200",
        "580",
        "python -m engine.bench.studies.steady",
    )
    datetime.date.fromisoformat(header["date"])


def test_where_nothing_was_measured_no_gpu_is_named():
    assert gpu_condition.about("x", None)["gpu"] is None


def test_what_holds_the_clocks_back_is_said_in_words():
    assert gpu_condition.words(0x4 | 0x40) == ["power cap", "thermal (hardware)"]
    assert gpu_condition.words(0) == [] and gpu_condition.words(None) is None
