"""What is installed is found without importing it; what is not comes with the way to get it."""

import importlib.util
import os
import subprocess
import sys

from engine.build import toolchain


def test_looking_imports_nothing_heavy():
    code = (
        "import sys; from engine.build.toolchain import find; find();"
        "print([m for m in ('torch', 'cutlass', 'quack', 'triton') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": "."}
    process = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_each_tool_has_a_version_or_a_way_to_get_it():
    for tool in toolchain.find().tools.values():
        assert (tool.version is None) == (tool.missing is not None)


def test_a_bare_machine_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    monkeypatch.setattr(toolchain.cuda_toolchain, "find_toolchain", lambda: None)
    bare = toolchain._find.__wrapped__(False)
    assert not (bare.cute or bare.cpp or bare.host_check)
    assert "requirements-gpu.txt" in bare.missing("quack")[0]
    assert "g++" in bare.missing("gxx")[0]
    assert len(bare.missing()) == len(bare.tools) == 7


def test_another_version_is_another_fingerprint():
    here = toolchain.find()
    other = toolchain.Toolchain({**here.tools, "quack": toolchain.Tool("quack", "99")})
    assert other.fingerprint("cute") != here.fingerprint("cute")
    assert other.fingerprint("cpp") == here.fingerprint("cpp")


def test_compilers_are_switched_off_only_while_the_environment_says_so(monkeypatch):
    monkeypatch.delenv("UCUTLASS_COMPILERS", raising=False)
    here = toolchain.find()
    assert here.missing("quack") != [toolchain.SWITCHED_OFF]
    monkeypatch.setenv("UCUTLASS_COMPILERS", "none")
    assert toolchain.find().missing("quack") == [toolchain.SWITCHED_OFF]
    monkeypatch.delenv("UCUTLASS_COMPILERS")
    assert toolchain.find() == here
