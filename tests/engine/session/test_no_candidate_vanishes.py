"""A candidate that the owner handed in is tried, or the end of the session says that it was not."""

import pytest

pytest.importorskip("torch")

from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.integrity import zoo

KERNEL = {"program": (zoo.HERE / "cuda_honest/gate.cu").read_text(), "form": "kernel", "language": "cuda", "cls": "f32"}
MODULE = zoo.module("gate")


def play(*data, **changes):
    words = iter([[("try", d) for d in data]])
    fields = {"title": "t", "source": MODULE, "device": "modelled:h200", "trials": 1, "classes": ("f32",)} | changes
    log = [e.event for e in run(SessionSpec(**fields), control=lambda: next(words, []), local_user=True, teaches=False)]
    return log, log[-1]


def test_a_kernel_is_tried_where_no_program_is_written_in_the_allowed_class():
    log, end = play(KERNEL)
    assert end.state == "done", end.reason
    (proposed,) = [e for e in log if isinstance(e, events.TrialProposed)]
    assert proposed.by == "owner" and proposed.cls == "f32"
    (note,) = [e for e in log if isinstance(e, events.Noted)]
    assert note.code == "no_program" and "no program is written in class f32 alone" in note.text
    assert end.untried == 0


def test_without_a_kernel_to_try_the_session_is_refused_and_says_where_kernels_can_be_tried():
    _, end = play()
    assert end.state == "refused" and end.code == "no_class"
    assert "allow tf32" in end.reason and "Raw kernels of class f32 can be tried in every session" in end.reason


def test_a_refused_session_says_how_many_candidates_it_did_not_try():
    _, end = play(KERNEL, KERNEL, source="import torch\n")
    assert end.state == "refused" and end.untried == 2
    assert end.reason.endswith("2 candidates of the owner were not tried.")


def test_a_stopped_session_says_so_too():
    words = iter([[("try", KERNEL), ("stop", {})]])
    fields = SessionSpec(title="t", source=MODULE, device="modelled:h200", trials=1, classes=("tf32",))
    (*_, end) = [e.event for e in run(fields, control=lambda: next(words, []), local_user=True, teaches=False)]
    assert end.state == "stopped" and end.untried == 1
    assert end.reason == "Stopped by the owner. 1 candidate of the owner was not tried."
