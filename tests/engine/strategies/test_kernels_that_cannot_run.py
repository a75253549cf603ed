"""Every strategy whose model writes kernels ends with the reason at the first one that this machine cannot run."""

import json

import pytest

from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Reply
from tests.engine.session.scripted import NoGpu, of
from tests.engine.strategies.test_led_by_models import NAMES, play
from tests.engine.strategies.two_stage.test_stages import KERNEL


@pytest.mark.parametrize("name", NAMES)
def test_one_kernel_is_asked_for_and_the_reason_ends_the_session(name):
    asked, player = [], Player()

    def handler(ask, turn):
        asked.append(ask.expects.__name__)
        kernel = {"source": f"class ModelNew: pass  # {len(asked)}", "language": "python", "cls": "f16", "change": "c"}
        text = {"Kernel": kernel, "KernelTemplate": KERNEL}.get(asked[-1])
        return Reply(json.dumps(text) if text else player.reply(ask.prompt), model="rehearsed")

    log, searching = play(name, handler, device=NoGpu(), trials=6, options={"form": "kernel"})
    assert len(of(log, events.TrialProposed)) == 1 and sum("Kernel" in form for form in asked) == 1, asked
    assert "compiled, and not run: there is no GPU here" in searching.reason
