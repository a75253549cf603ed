"""Why a session, a class or a trial ended is a code with its numbers: nobody has to read the sentence."""

import pytest

from engine.session import events
from engine.session.fold.view import cause_of
from tests.engine.counting import CountingDevice, spec
from tests.engine.test_session import of, play, said_after


def test_a_used_up_budget():
    ended = play()[0][-1]
    assert (ended.state, ended.code, ended.closed) == ("done", "budget_used", [])


def test_a_class_near_its_limit():
    ended = play(spec(trials=30, eps=50.0))[0][-1]
    (closed,) = ended.closed
    assert ended.code == "search_over" and (closed["cls"], closed["code"], closed["eps"]) == ("f16", "near_limit", 50.0)
    assert closed["limit_ms"] < closed["best_ms"] <= 51 * closed["limit_ms"]


def test_a_class_that_brought_nothing_better():
    (closed,) = play(spec(trials=30, window=2))[0][-1].closed
    assert (closed["code"], closed["trials"]) == ("stalled", 2)


def test_a_stop_by_the_owner():
    ended = play(control=said_after(3, ("stop", {})))[0][-1]
    assert (ended.state, ended.code) == ("stopped", "stopped")


def test_a_module_without_a_program_says_what_one_may_hold():
    module = (
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        "        return torch.logcumsumexp(x, 0)\n\ndef get_inputs():\n    return [torch.randn(8, 64)]\n"
    )
    log, _ = play(spec(source=module, source_kind="module"), local_user=True)
    ended = log[-1]
    assert (ended.state, ended.code) == ("done", "search_over")
    assert [(e.code, "`aten.logcumsumexp` (line 6)" in e.text) for e in of(log, events.Noted)] == [("no_program", True)]
    assert ended.covered[0]["kind"] == "products" and "linear" in ended.covered[0]["names"]


@pytest.mark.parametrize(("fail", "cause"), [("validate", "program"), ("crash validate", "run")])
def test_who_ended_a_trial(fail, cause):
    (failed,) = of(play(device=CountingDevice(fail={1: fail}))[0], events.TrialFailed)
    assert failed.cause == cause


def test_a_trial_that_the_owner_stopped():
    device = CountingDevice(hang_at=2)

    def control():
        return [("stop", {})] if device.hanging.is_set() else []

    (failed,) = of(play(device=device, control=control)[0], events.TrialFailed)
    assert (failed.code, failed.cause) == ("stopped", "owner")


@pytest.mark.parametrize(
    ("code", "cause"),
    [("wrong_result", "program"), ("reference_crashed", "run"), ("oracle_died", "run"), ("oracle", "run"),
     ("worker_lost", "run"), ("stopped", "owner"), ("cancelled", "owner"), ("nvcc", "program"), ("", "program")],
)  # fmt: skip
def test_an_older_log_says_it_by_its_code(code, cause):
    assert cause_of(code) == cause


def test_what_follows_from_a_verdict():
    judged = of(play()[0], events.TrialJudged)
    assert {e.standing for e in judged} <= {"best", "slower"}
    assert all((e.standing == "best") == e.best for e in judged)
