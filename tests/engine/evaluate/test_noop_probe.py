"""A program whose kernels are left out leaves its outputs alone; afterwards it works as before."""

import ctypes
import shutil
import subprocess
from types import ModuleType

import pytest

from engine.evaluate.candidate.noop_probe import silenced

STAGED = """
def scale(x, y): y[0] = 2 * x[0]
class Kernel:
    def __call__(self, x, y): y[0] = x[0] + y[0]
ADD = Kernel()
STAGES = {"scaled": (scale, None), "sum": (ADD, None)}
def load(artifact=None):
    def run(inputs, outputs):
        scale(inputs[0], outputs[0])
        ADD(inputs[0], outputs[0])
    return run
"""
BOUND = """
import ctypes
NAMESPACE = "uc_0"
def load(artifact):
    library = ctypes.CDLL(artifact)
    entry, size = library[NAMESPACE + "_run"], library[NAMESPACE + "_workspace"]
    entry.argtypes, size.restype = [ctypes.c_void_p], ctypes.c_longlong
    def run(inputs, outputs):
        assert size() == 64
        if entry(ctypes.addressof(outputs[0])):
            raise RuntimeError("no")
    return run
"""


def module(text):
    result = ModuleType("generated")
    exec(text, result.__dict__)
    return result


def test_the_stages_of_a_cute_module_are_left_out_and_named():
    source = module(STAGED)
    first, x, y = source.load(), [3], [0]
    with silenced(source, None) as (run, launches):
        run([x], [y])
        assert y == [0] and launches.names == ["scaled", "sum"]
    first([x], [y])
    source.load()([x], [y])
    assert y == [9]


def test_the_library_of_a_cpp_binding_is_asked_everything_but_to_run(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "k.c", tmp_path / "k.so"
    source.write_text("int uc_0_run(int* y) { *y = 7; return 0; } long long uc_0_workspace(void) { return 64; }")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    binding, y = module(BOUND), ctypes.c_int(0)
    with silenced(binding, str(library)) as (run, launches):
        run([], [y])
        assert y.value == 0 and launches.names == ["uc_0_run"]
    binding.load(str(library))([], [y])
    assert y.value == 7 and binding.ctypes is ctypes


def test_a_program_that_names_no_kernel_cannot_be_probed():
    with pytest.raises(LookupError, match="no kernel"), silenced(module("def load(a): return print"), None):
        pass
