"""A kernel's text as editors on other systems save it: with a byte order mark and Windows' line ends."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.integrity.verify import Verifier
from tests.engine.integrity import zoo

KERNEL = """import torch


def kernel(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
"""


def test_it_runs_as_any_other():
    with Verifier(zoo.module("softmax"), "cpu", local_user=True) as verifier:
        plain = verifier.verify(KERNEL).to_json()
        saved = verifier.verify("\ufeff" + KERNEL.replace("\n", "\r\n")).to_json()
    assert plain["rounds"] and all(r["right"] for r in saved["rounds"])
    assert [f["code"] for f in saved["findings"]] == [f["code"] for f in plain["findings"]]
