"""`import ucutlass` from the checkout, with a cache of its own for each test, and sessions that build nothing."""

import functools
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "engine" / "python"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def priced(monkeypatch):
    """Sessions take the times that the model predicts, and build and verify nothing (tests/engine/priced.py)."""
    from ucutlass import search

    from engine.evaluate.evaluator import Evaluator
    from engine.session.runner import run
    from tests.engine.priced import Priced

    monkeypatch.setattr(search, "run", functools.partial(run, device=Evaluator(Priced("h200")), teaches=False))
