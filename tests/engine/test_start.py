"""Our processes import their modules without the garbage collector, and have it back before they answer."""

import gc
import subprocess

import pytest

from engine import start
from engine.jsonprocess import python_path


def test_the_collector_rests_while_modules_are_imported_and_never_visits_them_later():
    frozen = gc.get_freeze_count()
    with start.importing():
        assert not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() > frozen


def test_an_import_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError), start.importing():
        import engine.no_such_module  # noqa: F401
    assert gc.isenabled()


def test_a_module_is_started_with_its_arguments_and_with_the_collector(tmp_path):
    (tmp_path / "worker.py").write_text(
        "import gc, sys\nbefore = gc.isenabled()\ndef main():\n    print(sys.argv, before, gc.isenabled())\n"
    )
    command = start.command("worker", "--device", "cpu")
    path = {"PYTHONPATH": f"{tmp_path}:{python_path()}"}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert done.stdout == "['worker', '--device', 'cpu'] False True\n"
