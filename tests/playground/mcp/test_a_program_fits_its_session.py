"""Before a program costs a trial: its class is one of the session's, and its parameters and results are a part's."""

from dataclasses import asdict

import pytest

from engine.session import events
from engine.session.events import blob_name
from engine.session.fold.reduce import View
from playground.access.answers import Refused
from playground.mcp import fitting
from playground.mcp.following import Following
from playground.models import Session

FIRST = "program up(x: f16[64, 32], w: f16[48, 32]) -> f16[64, 48] { y = gemm(x, w.T) { } return y }"
SECOND = "program down(h: f16[64, 24], v: f16[32, 24]) -> f16[64, 32] { y = gemm(h, v.T) { } return y }"
ACROSS = "program both(x: f16[64, 32], v: f16[32, 32]) -> f16[64, 32] { y = gemm(x, v.T) { } return y }"
CHUNK = {"name": "chunk_1", "op": "chunk", "line": 12, "reason": "chunk has no program", "why": "it has no program"}


@pytest.fixture
def session():
    return Session(id="a session", spec={"classes": ["tf32", "f16"], "strategy": "agent"})


@pytest.fixture
def following(monkeypatch):
    """Build what the log of a session says: `starts`, (text, region) of each program to start from."""
    texts = {}
    monkeypatch.setattr(Following, "blob", lambda self, name: texts.get(name, ""))

    def built(*starts, more=()):
        following = Following("a session", View())
        device = {"name": "H200", "kind": "predicted", "hardware": "h200"}
        log = [events.SessionStarted("t", blob_name("m"), "module", device, "agent", ["tf32", "f16"], {"trials": 9})]
        for text, region in starts:
            texts[blob_name(text)] = text
            log.append(events.Noted("start_from", "to start from", "f16", blob_name(text), region))
        for seq, event in enumerate([*log, *more], 1):
            assert following.view.apply(seq, event.KIND, float(seq), asdict(event))
            following._note(event.KIND, asdict(event))
        return following

    return built


def test_a_program_of_a_region_fits_by_types_whatever_its_names(following, session):
    log = following((FIRST, 1), (SECOND, 2))
    renamed = SECOND.replace("down", "mine").replace("h:", "a:").replace("(h,", "(a,")
    assert fitting.fit_of(log, session, renamed).to_json() == {
        "can_be_tried": True,
        "replaces": "region 2",
        "counts_in_class": "f16",
    }
    assert fitting.fit_of(following((FIRST, 0)), session, FIRST).part == "the module"


def test_a_program_across_regions_is_refused_and_learns_what_lies_between(following, session):
    left = events.Covered([], [CHUNK], {}, "two regions")
    with pytest.raises(Refused) as refusal:
        fitting.must_fit(following((FIRST, 1), (SECOND, 2), more=[left]), session, ACROSS)
    body = refusal.value.body
    assert "must take what region 1 takes: (x: f16[64, 32], w: f16[48, 32])" in body["error"]
    assert "no trial" in body["error"] and "`chunk` (line 12)" in body["fix"]
    assert [(row["part"], row["returns"]) for row in body["parts"]] == [
        ("region 1", "f16[64, 48]"),
        ("region 2", "f16[64, 32]"),
    ]


def test_a_program_with_another_result_is_refused(following, session):
    other = FIRST.replace("-> f16[64, 48]", "-> f32[64, 48]").replace("{ }", "{ store f32 }")
    fit = fitting.fit_of(following((FIRST, 0)), session, other)
    assert fit.error == "The program must return f16[64, 48], as the module does." and not fit.part


def test_a_class_outside_of_the_session_is_refused(following, session):
    with pytest.raises(Refused) as refusal:
        fitting.must_fit(following((FIRST, 0)), session, FIRST.replace("f16", "bf16"))
    assert refusal.value.status == 422
    expected = "The program is of class bf16. Classes of this session: tf32, f16. It became no trial and cost nothing."
    assert refusal.value.body["error"] == expected


def test_a_module_that_no_program_covers_takes_only_kernels(following, session):
    remark = events.Noted("no_program", "No program covers this module: cumsum has no rule")
    fit = fitting.fit_of(following(more=[remark]), session, FIRST)
    assert fit.error == remark.text and "raw kernel" in fit.fix


def test_before_the_module_is_traced_nothing_is_refused(following, session):
    fit = fitting.fit_of(following(), session, FIRST)
    assert not fit.error and str(fit.to_json()["can_be_tried"]).startswith("not known until")
