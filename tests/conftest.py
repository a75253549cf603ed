"""What all tests share: how pytest-xdist schedules them, and torch's settings, which belong to the process."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import shutil
import sys
import tempfile
import warnings

import hypothesis
import pytest

# Before torch is imported. Its threads wait for each other by spinning: workers that share the cores would spend half
# of their time on that. Sandboxes have an environment of their own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A first call may wait long for a core, and no test here is of time.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_configure(config):
    """One folder for this run, which the workers of pytest-xdist inherit: what was made once, all of them share."""
    if "UCUTLASS_TEST_RUN" not in os.environ:
        os.environ["UCUTLASS_TEST_RUN"] = folder = tempfile.mkdtemp(prefix="ucutlass-tests-")
        config.add_cleanup(lambda: os.environ.pop("UCUTLASS_TEST_RUN", None))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def import_from_another_place_on(config):
    """Import all test files, each worker of pytest-xdist from another place on: what one has compiled, the others read.

    They collect in the same order, so in a fresh checkout each would rewrite and compile every file, at the same time
    as the others, for most of the time that collecting takes.
    """
    worker, workers = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    folders = [config.invocation_params.dir / arg for arg in config.args]
    files = sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("test_*.py"))
    first = len(files) * worker // workers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in (*files[first:], *files[:first]):
            with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting the file says what is wrong
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect without the garbage collector: it would visit the objects of torch, Django and 7,000 tests again and
    again, which nothing ever frees. For the same reason it never visits them later."""
    gc.disable()
    try:
        if hasattr(session.config, "workerinput"):
            import_from_another_place_on(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


atexit.register(gc.unfreeze)  # nanobind reports what is not freed at the end, and pytest collects twice before


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`: a file stays in one worker, so that what its fixtures set up is set up once.

    Every second worker takes what drives the browser first, and keeps its application and its Chromium until none of
    that is left; the others take all else first. (Marks of the kind `xdist_group` have no effect: pytest 9.2 does not
    read the names that pytest-xdist 3.8 gives to tests.)
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Rooms(LoadFileScheduling):
        def _assign_work_unit(self, node) -> None:
            browser = int(node.gateway.id.removeprefix("gw")) % 2 == 0
            for file in self.workqueue:
                if file.startswith("tests/browser/") == browser:
                    self.workqueue.move_to_end(file, last=False)
                    break
            super()._assign_work_unit(node)

    return Rooms(config, log)


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """Restore torch's state after each test, and fail the test that left a setting changed.

    Tests of one process share that state, and pytest-xdist decides which tests those are. Random states are restored
    in silence: a test may seed. Before torch is imported there is nothing to restore.
    """
    if "torch" not in sys.modules:
        yield
        return
    from tests import torch_state

    before = torch_state.settings()
    random = torch_state.random()
    yield
    torch_state.restore_random(random)
    changed = torch_state.restore(before)
    assert not changed, f"the test left torch changed: {changed}; restore it where it is set"
