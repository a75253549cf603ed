"""Whether a result is its program's own: asked with the kernels left out, of one output and of several."""

import contextlib

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.candidate.guarded_outputs import Guarded  # noqa: E402
from engine.evaluate.candidate.noop_probe import Launches  # noqa: E402
from engine.evaluate.candidate.probes import probed, recorded  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)


def outputs(many=2):
    return [Guarded((2, 3), torch.float32, "cpu") for _ in range(many)]


@contextlib.contextmanager
def quiet(run):
    """What is left of a program when its kernels do nothing."""
    launches = Launches()
    launches.stub("product")()
    yield run, launches


def test_what_a_program_without_its_kernels_leaves_alone_is_its_kernels_work():
    reply = probed(quiet(lambda inputs, out: None), [X], outputs(), [X, X])
    assert reply == {"launches": ["product"], "same": False, "unwritten": 12, "elements": 12}


def test_a_result_that_is_there_without_them_is_not():
    def library(inputs, out):
        for o in out:
            o.copy_(inputs[0])

    reply = probed(quiet(library), [X], outputs(), [X, X.reshape(6)])  # as the module shapes it
    assert reply["same"] and reply["unwritten"] == 0


def test_one_of_several_results_that_differs_is_enough():
    def half(inputs, out):
        out[0].copy_(inputs[0])

    reply = probed(quiet(half), [X], outputs(), [X, X])
    assert not reply["same"] and reply["unwritten"] == 6
    assert probed(quiet(half), [X], outputs(), [X])["same"]  # where the first alone was verified


def test_a_program_that_cannot_be_asked_says_why():
    def breaks(inputs, out):
        raise ValueError("no")

    assert probed(quiet(breaks), [X], outputs(), [X, X]) == {
        "left_out": "its kernels could not be left out: ValueError: no"
    }


def test_without_a_gpu_nothing_is_recorded_and_nothing_runs():
    assert recorded(lambda: 1 / 0, "cpu") == {"kernels": None, "no_kernels": "nothing ran on a GPU"}
