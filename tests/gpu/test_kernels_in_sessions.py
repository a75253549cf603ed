"""Raw kernels of an owner are judged on the GPU: right ones timed, tricks named, a library's work never the best."""

import json

import pytest

from tests.gpu import kernels_in_sessions

pytestmark = pytest.mark.gpu


def test_each_kernel_ends_as_what_it_is(cuda, tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    status = kernels_in_sessions.main(["--json", "kernels.json"])
    document = json.loads((tmp_path / "kernels.json").read_text())
    assert status == 0, [(r["kernel"], r["faults"]) for s in document["sessions"] for r in s["kernels"] if r["faults"]]
