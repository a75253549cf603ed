"""The advice after a trial: it names no lever that another candidate uses, and what is left where no lever is."""

import json
from dataclasses import asdict

import pytest

from engine.session import events
from engine.session.events import blob_name
from engine.session.fold.reduce import View
from playground.mcp import trials
from playground.mcp.following import Following
from playground.models import Blob, Session

pytestmark = pytest.mark.django_db
FUSED = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { epilogue silu(acc) } return y }"
PLAIN = FUSED.replace("epilogue silu(acc)", "")
LEVER = {
    "action": "fuse_tail", "title": "Fuse silu into the epilogue of y", "why": "it saves a launch", "saves_ms": 0.1,
    "speedup": 1.4, "cls": "f16",
}  # fmt: skip
STAGES = [
    {"name": "t", "kind": "transform", "ms": 0.2, "bound_by": "memory", "parts": {"launch": 0.004, "main": 0.196}},
    {"name": "y", "kind": "gemm", "ms": 0.4, "bound_by": "tensor", "parts": {"launch": 0.0015, "main": 0.3985}},
]


@pytest.fixture
def following():
    """Build a session's log up to the end of trial 1, and whatever comes `beside` it."""
    session = Session.objects.create(id="a-session", spec={"strategy": "agent"})

    def built(*beside, tried=(), gap=6.0):
        report = json.dumps({"levers": [LEVER], "classes": ["f16"]})
        device = {"name": "H200", "kind": "predicted", "hardware": "h200"}
        log = [
            events.SessionStarted("t", blob_name("m"), "module", device, "agent", ["f16"], {"trials": 9}),
            events.Reported(blob_name(report), {"f16": 0.1}, "a sentence", ""),
            events.TrialProposed(1, "f16", blob_name(PLAIN), "cute", "the first", ""),
            events.TrialChecked(1, blob_name(PLAIN), 0.0, stages=STAGES, tried=list(tried)),
            *beside,
            events.TrialJudged(1, "clean", "f16", "predicted", 0.6, 1.0, "eager", gap, 0.5, best=True, text="better"),
        ]
        for text in (report, PLAIN, FUSED):
            blob = Blob.pack(blob_name(text), text)
            blob.save()
            session.blobs.add(blob)
        following = Following(session.id, View())
        for seq, event in enumerate(log, 1):
            assert following.view.apply(seq, event.KIND, float(seq), asdict(event))
        return following

    return built


def advice(following):
    return trials.advice(following, following.view.trials[1])


def test_a_lever_that_no_candidate_uses_is_offered(following):
    assert [s for s in advice(following()) if s.startswith("Not tried yet: Fuse silu")]


def test_a_lever_of_a_candidate_that_waits_is_not_offered(following):
    waiting = following(events.Controlled("try", {"program": blob_name(FUSED)}))
    assert not [s for s in advice(waiting) if "Not tried yet" in s]


def test_a_lever_of_a_candidate_that_no_engine_has_read_is_not_offered(following):
    log = following()
    Session.objects.get().commands.create(kind="try", data={"program": FUSED})
    assert not [s for s in advice(log) if "Not tried yet" in s]


def test_a_kernel_that_waits_is_not_read(following):
    log = following()
    Session.objects.get().commands.create(kind="try", data={"program": "__global__ void k() {}", "form": "kernel"})
    assert [s for s in advice(log) if "Not tried yet" in s]


def test_far_from_the_limit_without_a_lever_the_launches_and_copies_are_named(following):
    words = advice(following(tried=["fuse_tail"]))
    assert words[-2:] == [
        "Every lever of the report is used. Of the predicted 0.6 ms, the launches of 2 stages take 0.0055 ms: fewer "
        "stages save that.",
        "t only copies, in 0.2 ms: let a neighbour read or store that type and layout, or `prepack` a parameter.",
    ]
    assert "Every lever" not in str(advice(following(tried=["fuse_tail"], gap=1.05)))
