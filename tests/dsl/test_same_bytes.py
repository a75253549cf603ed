"""The same program gives the same bytes: on two clones of the repository, in two places, under different hash seeds,
locales and time zones; both back ends' texts, their bindings and line maps, and the zip of an export."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("dsl", "sol", "engine", "requirements-gpu.txt")
ASK = """
import hashlib
from pathlib import Path

import dsl
from dsl.check.program import check
from dsl.compile import compile
from engine.export import archive, history, package

home = Path(dsl.__file__).parent / "examples"
for path in sorted(home.glob("*.ucutlass")) + sorted(home.glob("suite59/*.ucutlass"))[::7]:
    text = path.read_text()
    made = compile(check(text).program)
    print(path.stem, made.digest, hashlib.sha256(made.text.encode()).hexdigest())
    for name, source in made.sources.items():
        told = repr((source.text, source.binding, source.namespace, source.line_map))
        print(path.stem, name, hashlib.sha256(told.encode()).hexdigest())
    for name, refusal in made.refused.items():
        print(path.stem, name, refusal.code, refusal.message)
for name in ("mlp", "gemm_scale_leaky"):
    text = (home / f"{name}.ucutlass").read_text()
    print(name, "zip", hashlib.sha256(archive(package.files(history.of_program(text)))).hexdigest())
"""


def asked(clone: Path, cwd: Path, **environ: str) -> str:
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHASHSEED")} | environ
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def clone(tmp_path) -> Path:
    """What a second machine would have: the files alone, at another path."""
    there = tmp_path / "a clone, elsewhere"
    for room in ROOMS:
        if (ROOT / room).is_dir():
            shutil.copytree(ROOT / room, there / room, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(ROOT / room, there / room)
    return there


def test_two_clones_under_two_hash_seeds_generate_the_same_bytes(clone, tmp_path):
    here = asked(ROOT, ROOT, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C.UTF-8")
    there = asked(clone, tmp_path, PYTHONHASHSEED="4242", TZ="Asia/Tokyo", LC_ALL="C", HOME=str(tmp_path))
    assert here.count("\n") > 70
    assert [a for a, b in zip(here.splitlines(), there.splitlines(), strict=True) if a != b] == []
