"""Another session is admitted when its memory fits beside the others."""

import contextlib
import os

import pytest

from engine.executors import memory
from engine.executors.memory import Memory
from engine.sandbox import Sandbox, confine, tree

GIB = 1 << 30


@pytest.fixture
def budget(monkeypatch):
    """A budget of 4 GiB whose measured use is what the test says."""
    budget = Memory(4 * GIB)
    monkeypatch.setattr(budget, "used", lambda: budget.measured)
    budget.measured = GIB // 2
    return budget


def test_the_first_session_always_fits(budget):
    budget.measured = 9 * GIB
    assert budget.fits_another(0, 0)


def test_sessions_that_just_began_count_with_what_a_session_usually_takes(budget):
    assert budget.fits_another(0, 0)
    new = next(n for n in range(1, 99) if not budget.fits_another(n, n))
    assert new == int((3.5 * GIB) // memory.USUAL)


def test_what_sessions_take_is_learnt_from_those_that_run(budget):
    assert budget.fits_another(0, 0)
    budget.measured = 3 * GIB  # two sessions hold 1.25 GiB each
    assert not budget.fits_another(2, 0)
    assert budget.usual == pytest.approx(1.25 * GIB)


def test_the_use_of_this_process_is_measured():
    used = Memory(GIB).used()
    block = bytearray(os.urandom(1 << 20) * 64)
    assert Memory(GIB).used() - used > 32 << 20 and len(block)


def test_what_forks_share_counts_once():
    if confine.choose(False)[0] == "none":
        pytest.skip("needs bubblewrap")
    with contextlib.ExitStack() as stack:
        stack.enter_context(Sandbox(local_user=True).start())
        boxes = [stack.enter_context(Sandbox(local_user=True).start()) for _ in range(3)]
        alone = [tree.usage([box._started.fork._pid])[0] for box in boxes]
        assert min(alone) > 100 << 20
        used = Memory(GIB).used()
        for box in boxes:
            box.close()
        # At once, because what earlier tests left in this process may grow or end.
        assert used - Memory(GIB).used() < sum(alone) / 2
