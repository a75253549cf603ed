"""A scripted model cheats in twelve ways through a session of `flat`; each kernel is named as what it is.

On a machine without a GPU a kernel gets no time, so each trial ends with its verdict.
"""

import json

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity import kernel_trial
from engine.sandbox import Sandbox
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.api import Reply
from tests.engine.integrity import zoo

WAYS = (
    "constant_mean", "late_replay", "patched_clock", "lazy_tensor", "cached_by_pointer", "harness_by_import",
    "code_in_base64", "changes_its_input", "timer_thread", "dispatch_mode", "seed_guessing", "one_result_for_all",
)  # fmt: skip
CHEATS = {a.path.stem: a for a in zoo.animals("cheats") if a.module == "softmax"}


@pytest.fixture(scope="module")
def log():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    texts = iter(WAYS)

    def model(ask, turn):
        name = next(texts)
        reply = {"source": CHEATS[name].text, "language": "python", "cls": CHEATS[name].cls, "change": name}
        return Reply(json.dumps(reply), model="a model that cheats")

    spec = SessionSpec(
        title="cheats", source=zoo.module("softmax"), device="modelled:h200", trials=len(WAYS), classes=("f32", "tf32"),
        strategy="flat", options={"form": "kernel", "profile": False},
    )  # fmt: skip
    limit, kernel_trial.CALL_SECONDS = kernel_trial.CALL_SECONDS, 3.0
    try:
        return [e.event for e in run(spec, handlers={"ask": model}, local_user=True)]
    finally:
        kernel_trial.CALL_SECONDS = limit


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_named(log, way):
    number = next(e.trial for e in log if isinstance(e, events.TrialProposed) and e.change == way)
    end = next(e for e in log if isinstance(e, events.ENDS) and e.trial == number)
    findings = {line["name"] for line in end.evidence if line["verdict"] in ("gaming", "wrong")}
    assert CHEATS[way].expect <= findings, (findings, end)
    assert not isinstance(end, events.TrialJudged) and getattr(end, "verdict", "wrong") != "clean"


def test_no_cheat_is_the_best_and_the_budget_is_respected(log):
    assert log[-1].best == {} and log[-1].trials == len(WAYS)
