"""What the answers of the MCP tools say, without a server: the check of a program, a trial, a report."""

from dataclasses import asdict

import pytest

from engine.session.fold.reduce import View
from playground.access.answers import Refused
from playground.language import service
from playground.mcp import programs, trials
from playground.mcp.following import Following
from tests.playground import script

PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
GUARDED = """program p(x: f32[512, 512], w: f32[512, 512]) -> f32[512, 512] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  y = gemm(xh, wh.T) { store f32 }
  return y
}"""
CLUSTERED = """program p(x: f16[32, 128, 56, 56], w: f16[128, 128, 3, 3]) -> f16[32, 128, 56, 56] {
  xl = transform(x) { layout nhwc }
  wl = transform(w) { layout nhwc  prepack }
  y = conv2d(xl, wl) { tile 256x64x64  cluster 2x1x1  padding 1x1  store f16 nchw }
  return y
}"""


def test_a_checked_program_names_its_back_end_and_its_class():
    plain, guarded, clustered = (programs.checked(text).data for text in (PROGRAM, GUARDED, CLUSTERED))
    assert (plain["backend"], plain["why_not_cute"], plain["precision_class"]) == ("cute", None, "f16")
    assert (guarded["precision_class"], guarded["limit_of_class"]) == ("tf32", "f16")
    assert clustered["backend"] == "cpp" and "cluster" in clustered["why_not_cute"], clustered


def test_a_program_that_no_back_end_writes_is_refused(monkeypatch):
    refused = {name: {"code": "x", "message": f"not in {name}", "help": "leave it out"} for name in ("cute", "cpp")}
    compiled = {"sources": {}, "refused": refused, "class": "f16", "limit_class": "f16"}
    monkeypatch.setattr(service, "compile_", lambda text: compiled)
    assert programs.checked(PROGRAM).data["backend"].startswith("none, so it cannot be built: cute: not in cute")
    with pytest.raises(Refused, match="No back end writes this program: not in cute") as refusal:
        programs.must_be_valid(PROGRAM)
    assert (refusal.value.status, refusal.value.body["fix"]) == (422, "leave it out.")


def followed(*more, trials=3):
    """A session of the script, and events after its trials."""
    following = Following("a session", View())
    rows = list(script.session(trials=trials))[:-1] + [(event, {}) for event in more]
    for seq, (event, _) in enumerate(rows, 1):
        assert following.view.apply(seq, event.KIND, float(seq), asdict(event))
    return following


def test_a_trial_that_was_overtaken_keeps_two_moments_apart(monkeypatch):
    monkeypatch.setattr(trials, "blob", lambda name: "")
    monkeypatch.setattr(trials, "_levers", lambda *_: [])
    following = followed()
    first, last = (trials.described(following, following.view.trials[n], {}).data for n in (1, 3))
    assert first["when_judged"]["text"] == "better"
    assert first["now"] == {"best_of_its_class": False, "best_trial_of_its_class": 3}
    assert last["now"] == {"best_of_its_class": True, "best_trial_of_its_class": 3}
    assert not {"standing", "text", "best_of_its_class"} & set(first)
