"""The study of the host's time: the Python of a call is measured without a launch, and the package is as before."""

import json

import pytest

torch = pytest.importorskip("torch")

from engine.bench.studies import host_time  # noqa: E402
from tests.engine.export.packages import TWO_REGIONS, exported  # noqa: E402


def test_it_measures_without_a_gpu_and_names_what_it_cannot_export(tmp_path, monkeypatch):
    monkeypatch.setattr(host_time, "ROUNDS", 2)
    monkeypatch.setattr(host_time, "CALLS", 5)
    (tmp_path / "small_two_regions.py").write_text(TWO_REGIONS)
    (tmp_path / "nothing.py").write_text("x = 1\n")
    files = [str(tmp_path / "small_two_regions.py"), str(tmp_path / "nothing.py")]
    assert host_time.main([*files, "--device", "cpu", "--json", str(tmp_path / "out.json")]) == 1
    report = json.loads((tmp_path / "out.json").read_text())
    row, refused = report["rows"]
    assert row["programs"] == 2 and row["pytorch"] == 1 and 0 < row["over_us"] < 1e5
    assert report["gpu"] is None and "over_us" not in refused and "nn.Module" in refused["refused"]


def test_programs_run_again_after_the_measurement(tmp_path):
    package, original = exported(TWO_REGIONS, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    with torch.no_grad():
        right = model(x)
        with host_time.silent(package):
            assert not torch.equal(package.optimized(model)(x), right)
        assert torch.allclose(package.optimized(model)(x), right, atol=1e-5)
