"""The strategy `again` carries a record's programs to a module of other sizes, and says where it cannot."""

import pytest

pytest.importorskip("torch")

from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.again import options_of
from engine.strategies.api import Candidate
from tests.engine.counting import CountingDevice

MODULE = """\
import torch
from torch import nn

ROWS = {rows}


class Model(nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(ROWS, 256, dtype=torch.float16)]
"""


def session(source, **more):
    spec = SessionSpec(source=source, classes=("f16",), **more).to_dict()
    return [emitted.event for emitted in run(spec, device=CountingDevice(), local_user=True, teaches=False)]


def best_of(source):
    """The text of the first trial's program of a search."""
    texts = {}
    spec = SessionSpec(source=source, classes=("f16",), trials=1).to_dict()
    for emitted in run(spec, device=CountingDevice(), local_user=True, teaches=False):
        texts |= dict(emitted.blobs)
        if isinstance(emitted.event, events.TrialProposed):
            proposed = emitted.event
    return Candidate(texts[proposed.program], proposed.cls, proposed.backend)


def again(source, candidate):
    options = options_of({3: candidate}) | {"carry": True}
    return session(source, strategy="again", trials=1, options=options)


def test_the_program_is_tried_at_the_sizes_of_the_module():
    candidate = best_of(MODULE.format(rows=512, body="torch.softmax(x, 1)"))
    log = again(MODULE.format(rows=64, body="torch.softmax(x, 1)"), candidate)
    (judged,) = [e for e in log if isinstance(e, events.TrialJudged)]
    assert judged.verdict == "clean"


def test_a_module_of_other_operations_has_no_counterpart():
    candidate = best_of(MODULE.format(rows=512, body="torch.softmax(x, 1)"))
    end = again(MODULE.format(rows=64, body="torch.relu(x)"), candidate)[-1]
    assert end.state == "refused" and "no program has the stages of the best one" in end.reason
