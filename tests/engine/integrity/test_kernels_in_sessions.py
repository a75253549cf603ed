"""A raw kernel is a trial of a session: on a machine without a GPU it is verified or compiled, and never gets a time.

One session takes all kernels one after the other, as an owner would paste them, and its planner makes a trial besides.
"""

import re
import time

import pytest

pytest.importorskip("torch")

from engine.build import toolchain
from engine.evaluate.integrity import kernel_trial
from engine.sandbox import Sandbox
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.integrity import zoo

WRONG = "import torch\n\ndef kernel(x):\n    return torch.softmax(x, -1) * 1.02\n"
RAISES = "def kernel(x):\n    rows = []\n    return rows[3]\n"
HANGS = "def kernel(x):\n    while True:\n        pass\n"
CRASHES = "import ctypes\n\ndef kernel(x):\n    ctypes.string_at(0)\n"
MODULE = "import torch.nn as nn\n\nclass Model(nn.Module):\n    pass\n"
NO_PYTHON = "def kernel(x):\n    return x +\n"
CUDA = 'extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream)'
NOT_COMPILED = f"__global__ void k(float* y) {{\n  y[0] = missing;\n}}\n{CUDA} {{\n  return absent;\n}}\n"


def animal(path: str) -> str:
    return (zoo.HERE / path).read_text()


NAMES = ("built_and_not_called", "fills_later", "no_op")  # twelve more: tests/engine/llm/test_a_model_that_cheats.py
CHEATS = {a.path.stem: a for a in zoo.animals("cheats") if a.path.stem in NAMES}
PYTHON = {
    "right": animal("honest/softmax_c.py"), "library": animal("honest/softmax_numpy.py"), "wrong": WRONG,
    "raises": RAISES, "hangs": HANGS, "crashes": CRASHES, "module": MODULE, "no python": NO_PYTHON,
    "triton": animal("cuda_honest/softmax_triton.py"), **{name: a.text for name, a in CHEATS.items()},
}  # fmt: skip
CUDA_TEXTS = {
    "cuda": animal("cuda_honest/softmax.cu"), "cuda cheat": animal("cuda_cheats/side_stream.cu"),
    "not compiled": NOT_COMPILED,
}  # fmt: skip


def owner(**tries: tuple[str, str]):
    """The owner's words: all at once, when the engine first listens."""
    words = [("try", {"program": text, "form": "kernel", "language": language}) for text, language in tries.values()]
    listened = iter([words])
    return lambda: next(listened, [])


def spec(**changes):
    fields = {
        "title": "t",
        "source": zoo.module("softmax"),
        "device": "modelled:h200",
        "trials": 1,
        "classes": ("tf32",),
    }
    return SessionSpec(**fields | changes)


class Log:
    """The events of a session, trial by trial of the tries that it was given."""

    def __init__(self, tries, **changes):
        self.emitted = list(run(spec(**changes), control=owner(**tries), local_user=True))
        self.events = [e.event for e in self.emitted]
        self.blobs = {k: v for e in self.emitted for k, v in e.blobs.items()}
        own = [e for e in self.events if isinstance(e, events.TrialProposed) and e.by == "owner"]
        self.numbers = dict(zip(tries, (e.trial for e in own), strict=True))

    def of(self, name: str) -> list[events.Event]:
        return [e for e in self.events if getattr(e, "trial", None) == self.numbers[name]]

    def end(self, name: str) -> events.Event:
        return self.of(name)[-1]


@pytest.fixture(scope="module")
def log():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    tries = {name: (text, "python") for name, text in PYTHON.items()}
    tries |= {name: (text, "cuda") for name, text in CUDA_TEXTS.items()}
    limit = kernel_trial.CALL_SECONDS
    kernel_trial.CALL_SECONDS = 3.0
    try:
        yield Log(tries)
    finally:
        kernel_trial.CALL_SECONDS = limit


def kinds(trial):
    return [e.KIND.removeprefix("trial.") for e in trial]


def test_a_right_kernel_is_verified_and_has_no_time(log):
    trial = log.of("right")
    assert kinds(trial) == ["proposed", "checked", "compiled", "validated", "untimed"]
    proposed, checked, compiled, validated, end = trial
    assert (proposed.form, proposed.language, proposed.by) == ("kernel", "python", "owner")
    assert log.blobs[proposed.program] == log.blobs[checked.resolved] == PYTHON["right"]
    assert compiled.how == "loaded" and compiled.resources is None
    wide = {"huge", "minute", "uneven"}  # for a class with the exponent of f32
    assert {c["family"] for c in validated.checks} == {"own", "normal", "large", "tiny", "closed_form", *wide}
    assert 0 < validated.error <= validated.tolerance
    assert (end.verdict, end.code, end.step) == ("clean", "no_prediction", "measure")
    seen = {line["name"]: line["verdict"] for line in end.evidence}
    assert seen == dict.fromkeys(["text", "results", "memory", "process", "kernels", "precision"], "passed")


def test_a_kernel_without_a_time_is_never_the_best_and_uses_no_budget(log):
    ended = log.events[-1]
    assert ended.state == "done" and "budget of 1 trial" in ended.reason
    own = set(log.numbers.values())
    assert not own & set(ended.best.values())
    assert not [e for e in log.events if isinstance(e, events.TrialMeasured | events.TrialJudged) and e.trial in own]
    assert [e.trial for e in log.events if isinstance(e, events.TrialJudged)] == [len(own) + 1], "the planner's own"


def test_a_library_only_kernel_is_named_as_that(log):
    end = log.end("library")
    assert isinstance(end, events.TrialUntimed) and end.verdict == "library only"
    assert "a library did the work" in end.text
    assert [line["verdict"] for line in end.evidence if line["name"] == "kernels"] == ["library only"]


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_named_as_what_it_is(log, name):
    end = log.end(name)
    gaming = {line["name"] for line in end.evidence if line["verdict"] == "gaming"}
    assert isinstance(end, events.TrialUntimed) and end.verdict == "gaming", end
    assert CHEATS[name].expect <= gaming and end.text
    assert kinds(log.of(name))[-1] == "untimed" and "validated" not in kinds(log.of(name))


@pytest.mark.parametrize(
    ("name", "step", "code", "words"),
    [
        ("wrong", "validate", "wrong_result", "all rounds are wrong; the largest relative error 2.0e-02 on "),
        ("raises", "validate", "raised", "Line 3 raised IndexError: list index out of range"),
        ("hangs", "validate", "time_limit", "did not end within 9 s"),
        ("crashes", "validate", "crashed", "line 4: its process crashed (SIGSEGV)"),
        ("module", "check", "no_entry", "Rename it to `ModelNew`, or define `class ModelNew(nn.Module)`"),
        ("no python", "check", "not_loaded", "line 2: invalid syntax"),
    ],
)
def test_a_kernel_that_fails_says_what_happened_and_where(log, name, step, code, words):
    end = log.end(name)
    assert isinstance(end, events.TrialFailed) and (end.step, end.code) == (step, code), end
    # How many results of the burst are looked at is drawn.
    reason = re.sub(r"\b(\d+) of \1 rounds", "all rounds", end.reason)
    assert words in reason, end.reason
    assert [line for line in end.evidence if line["verdict"] == "wrong"]


def test_places_in_the_text_are_fields(log):
    assert [d["line"] for d in log.end("raises").diagnostics] == [3]
    assert [d["line"] for d in log.end("no python").diagnostics] == [2]


def test_a_kernel_of_triton_needs_a_gpu_and_is_not_called_wrong(log):
    end = log.end("triton")
    assert isinstance(end, events.TrialUntimed)
    assert (end.verdict, end.code) == ("unverified", "needs_gpu") and "it launches softmax" in end.text
    assert end.text.endswith("there is no GPU here, so that nothing was verified"), "no words of Triton's driver"


@pytest.mark.toolchain
class TestCuda:
    @pytest.fixture(autouse=True)
    def nvcc(self):
        if not toolchain.find().has("nvcc"):
            pytest.skip("needs requirements-gpu.txt")

    def test_cuda_is_compiled_and_says_that_it_cannot_run(self, log):
        trial = log.of("cuda")
        assert kinds(trial) == ["proposed", "checked", "compiled", "untimed"]
        compiled, end = trial[-2:]
        assert compiled.how == "machine code" and compiled.backend == "nvcc" and "sm_90a" in compiled.note
        assert [k["kernel"] for k in compiled.resources] == ["softmax"] and compiled.resources[0]["registers"] > 8
        assert (end.verdict, end.code) == ("unverified", "needs_gpu") and "there is no GPU here" in end.text

    def test_a_trick_in_the_text_of_cuda_is_named_although_it_cannot_run(self, log):
        end = log.end("cuda cheat")
        assert end.verdict == "gaming" and end.text.startswith("line 36: works on a stream of its own")
        assert [line["line"] for line in end.evidence if line["name"] == "side_stream"] == [36]

    def test_what_does_not_compile_is_told_with_nvccs_lines(self, log):
        end = log.end("not compiled")
        assert isinstance(end, events.TrialFailed) and (end.step, end.code) == ("compile", "not_compiled")
        assert end.reason == 'line 2: identifier "missing" is undefined'
        assert [d["line"] for d in end.diagnostics] == [2, 5]
        assert "candidate.cu(5): error" in log.blobs[end.detail]


def test_without_a_compiler_it_is_said(monkeypatch):
    monkeypatch.setattr("engine.evaluate.integrity.process.compiler.find", lambda: None)
    text = CUDA_TEXTS["cuda"] + "// never built before\n"
    end = Log({"cuda": (text, "cuda")}).end("cuda")
    assert isinstance(end, events.TrialUntimed) and (end.verdict, end.code) == ("unverified", "no_compiler")
    assert "put CUDA's nvcc on PATH" in end.text


# ---- resuming, stopping, sessions without a module ----


@pytest.mark.parametrize(
    "kind", [events.TrialProposed, events.TrialChecked, events.TrialCompiled, events.TrialValidated]
)
def test_a_log_cut_inside_a_kernels_trial_gives_the_same_remainder(log, kind):
    first = log.of("right")
    cut = next(i for i, e in enumerate(log.events) if isinstance(e, kind) and e.trial == first[0].trial) + 1
    past = [(i + 1, e) for i, e in enumerate(log.events[:cut])]
    # Without the other tries, which are as many trials again.
    others = [e for _, e in past if isinstance(e, events.Controlled)][1:]
    past = [(i, e) for i, e in past if e not in others]
    again = [e.event for e in run(spec(), history=past, read_blob=log.blobs.__getitem__, local_user=True)]
    rest = [e for e in again if getattr(e, "trial", None) == first[0].trial]
    assert kinds(rest) == kinds([e for e in first if e not in log.events[:cut]])
    end = rest[-1]
    assert (end.verdict, end.code) == ("clean", "no_prediction")
    assert {line["name"] for line in end.evidence} == {line["name"] for line in first[-1].evidence}


def test_stop_is_heard_while_a_kernel_hangs():
    words, began = [[("try", {"program": HANGS, "form": "kernel", "language": "python"})]], []

    def control():
        if began and time.monotonic() - began[0] > 1.0:
            return [("stop", {})]
        return words.pop() if words else []

    log = []
    for emitted in run(spec(), control=control, local_user=True):
        log.append(emitted.event)
        if isinstance(emitted.event, events.TrialCompiled):
            began.append(time.monotonic())
    assert time.monotonic() - began[0] < 18, "the kernel may take 20 s, the owner did not wait for it"
    failed = next(e for e in log if isinstance(e, events.TrialFailed))
    assert failed.code == "stopped" and log[-1].state == "stopped"


def test_a_session_of_a_program_has_nothing_to_hold_a_kernel_against():
    program = "program p(x: f32[256, 512], w: f32[256, 512]) -> f32[256, 256] { y = gemm(x, w.T) { } return y }"
    end = Log({"right": (PYTHON["right"], "python")}, source=program, source_kind="program").end("right")
    assert isinstance(end, events.TrialFailed) and (end.step, end.code) == ("check", "no_module")
    assert "start one of a module" in end.reason
