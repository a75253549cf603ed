"""torch.compile is timed by the clock of raw kernels, and a row compares both by that clock where it did."""

import pytest

from engine.bench.studies.shape_groups import rivals, rows
from engine.bench.studies.shape_groups.saved import Saved
from engine.devices import TrialError
from tests.engine.bench.shape_groups.test_copies import briefly, on_the_cpu
from tests.engine.bench.shape_groups.test_rows import TIMED, shape

MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(1 << 20)]
"""
KERNEL = "import torch\n\n\ndef kernel(x):\n    return x.clamp(min=0)\n"


def test_a_way_of_pytorch_is_timed_beside_a_kernel_by_the_clock_of_raw_kernels(monkeypatch):
    briefly(monkeypatch)
    one = rivals.measured(MODULE, KERNEL, "f32", "eager", "python", on_the_cpu)  # the CPU's judge has no other way
    assert one["way"] == "eager" and one["kind"] == "measured" and one["ms"] > 0
    assert one["method"].startswith("outside clock")


def test_each_shape_is_timed_once_and_a_failure_says_why():
    asked = []

    def time(source, kernel, cls):
        asked.append(source)
        if source == "bad":
            raise TrialError("measure", "time_limit", "It took too long.")
        return {"way": "compile", "ms": 2.0, "kind": "measured", "method": ""}

    saved = {}
    study = rivals.Rivals(time, Saved(saved))
    assert study.of("a", "k", "f16") == study.of("a", "k", "f16") and asked == ["a"] and len(saved) == 1
    assert study.of("a", "k", "bf16")["ms"] == 2.0 and len(saved) == 2, "another class is another module"
    assert study.of("bad", "k", "f16") == {"way": "compile", "ms": None, "why": "It took too long."}
    assert rivals.Rivals().of("a", "k", "f16") is None, "a predicted device times nothing"


def test_a_kernel_is_compared_with_torch_compile_by_one_clock_where_it_timed_both():
    through_eager = TIMED | {"compiled": 0.8}
    assert rows.compiled_of(shape(rival={"ms": 1.1}), through_eager) == pytest.approx(1.1)
    assert rows.compiled_of(shape(rival={"ms": None, "why": "lost"}), through_eager) == 0.8
    assert rows.compiled_of(shape(), through_eager) == 0.8
