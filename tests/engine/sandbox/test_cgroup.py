"""A sandbox gets a cgroup where the engine may create one; where it may not, the reason is known.

CI runs without one (tests/engine/sandbox/test_holdings.py says what holds there); the last two tests need one, which
tests.engine.sandbox.machine has.
"""

import os
import subprocess

import pytest

from engine.sandbox import Sandbox, SandboxEnded, cgroup
from engine.sandbox.cgroup import Cgroup


def test_the_reason_why_there_is_none_is_a_sentence(tmp_path):
    assert "container" in cgroup._usable(tmp_path, "/")
    assert "container" in cgroup._usable(tmp_path, "/../outside")
    assert "cannot be created" in cgroup._usable(tmp_path, "/missing/engine")
    (tmp_path / "service").mkdir()
    (tmp_path / "service/cgroup.subtree_control").write_text("cpu memory pids")
    assert "does not divide" in cgroup._usable(tmp_path, "/service/engine")
    assert os.listdir(tmp_path / "service") == ["cgroup.subtree_control"]


def test_its_limits_and_the_kernels_answer(tmp_path):
    group = Cgroup(tmp_path, 1 << 30, 77)
    files = {f.name: f.read_text() for f in group.path.iterdir()}
    assert files == {"memory.max": str(1 << 30), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "77"}
    assert not group.exceeded
    (group.path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\n")
    assert not group.exceeded
    (group.path / "memory.events").write_text("max 9\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert group.exceeded
    assert Cgroup(tmp_path, 1, 1).path != group.path


def test_the_kernel_bounds_what_a_sandbox_takes():
    if isinstance(reason := cgroup.parent(), str):
        pytest.skip(reason)
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    with Sandbox(preload=("engine.trace.child",), memory_bytes=1 << 30).start() as box:
        group = box._holdings._cgroup.path
        assert (group / "memory.max").read_text().strip() == str(1 << 30)
        with pytest.raises(SandboxEnded) as caught:
            source = "held = [bytes(64 << 20).replace(b'\\0', b'x') for _ in range(100)]"
            box.request({"entry": "engine.trace.child", "source": source}, timeout=60)
        assert caught.value.code == "memory_limit"
    assert not group.exists()


def test_an_ended_cgroup_is_removed():
    if isinstance(reason := cgroup.parent(), str):
        pytest.skip(reason)
    group = Cgroup(cgroup.parent(), 1 << 28, 10)
    sleeper = subprocess.Popen(["sleep", "600"])
    group.add([sleeper.pid])
    group.close()
    assert sleeper.wait(60) == -9 and not group.path.exists()
