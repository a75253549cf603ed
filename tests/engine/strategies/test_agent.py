"""The strategy `agent` tries what is handed in, in order, until the budget is spent or its owner stops it."""

import pytest

from engine.session import events
from engine.session.spec import SessionSpec
from engine.strategies.agent import Agent
from engine.strategies.problem import Prepared
from sol.hardware import load
from tests.engine.counting import PROGRAM, CountingDevice
from tests.engine.session.scripted import Searching, of
from tests.engine.session.test_owners_commands import after_advanced, heard, words
from tests.engine.test_session import play

CUMSUM = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    "        return torch.logcumsumexp(x, 0)\n\ndef get_inputs():\n    return [torch.randn(8, 64{more})]\n"
)


def mine(text, **more):
    return "try", {"program": text, "form": "kernel", "language": "cuda", **more}


def handed_in(*spoken, **more):
    searching = Searching(Agent(), **more)
    return heard(searching, words(*((after_advanced("0"), word) for word in spoken))), searching


def test_each_candidate_becomes_the_next_trial_with_its_change_and_the_budget_ends_the_session():
    log, searching = handed_in(mine("one", change="smaller tiles"), mine("two"), mine("three"), trials=2)
    proposed = of(log, events.TrialProposed)
    assert [(e.trial, e.by, e.change) for e in proposed] == [
        (1, "strategy", "smaller tiles"),
        (2, "strategy", "a kernel that was handed in"),
        (3, "owner", "the owner's kernel"),  # beyond the budget: tried as the owner's, so that none vanishes
    ]
    assert proposed[0].why == "handed in by the owner"
    assert (searching.code, searching.reason) == ("budget_used", "The budget of 2 trials is used up.")


def test_a_program_and_a_kernel_may_take_turns_and_a_failure_ends_nothing():
    log, _ = handed_in(mine("a fail"), ("try", {"program": PROGRAM}), mine("ok"), trials=3)
    assert [e.form for e in of(log, events.TrialProposed)] == ["kernel", "program", "kernel"]
    assert [e.trial for e in of(log, events.TrialFailed)][:1] == [1]


def test_a_resumed_session_takes_up_where_it_was():
    log, searching = handed_in(mine("one"), mine("two"), trials=2)
    for cut in range(len(log)):
        past = log[:cut]
        logged = [e for e in past if isinstance(e, events.Controlled)]
        left = [mine("one"), mine("two")][len(logged) :]
        again = Searching(Agent(), past=past, blobs=searching.blobs, trials=2)
        resumed = heard(again, words(*((after_advanced("0"), word) for word in left)))
        assert [(e.trial, e.program) for e in of(resumed, events.TrialProposed)] == [
            (e.trial, e.program) for e in of(log, events.TrialProposed)
        ], cut


def spec(source, **more):
    return SessionSpec(title="t", source=source, strategy="agent", trials=1, classes=("f32",), **more)


@pytest.mark.parametrize(
    ("allowed", "dtype", "cls"),
    [
        (("tf32", "f16"), "", "tf32"),
        (("tf32", "f16"), ", dtype=torch.float16", "f16"),  # a module in f16 has no limit in tf32
        (("fp8", "bf16"), "", "bf16"),
        (("tf32",), ", dtype=torch.bfloat16", "bf16"),
    ],
)
def test_a_kernel_that_declares_no_class_gets_the_first_that_has_a_limit(allowed, dtype, cls):
    pytest.importorskip("torch")
    from engine.devices import Problem
    from engine.trace.parent import trace

    graph = trace(CUMSUM.format(more=dtype), local_user=True).graph
    assert Prepared(Problem("", "module", graph), allowed, load("h200")).kernel_class == cls


@pytest.mark.parametrize(("more", "state"), [("", "done"), (", dtype=torch.float64", "refused")])
def test_a_module_without_a_program_takes_kernels_unless_no_class_fits_it(more, state):
    pytest.importorskip("torch")

    class Kernels(CountingDevice):
        forms = ("program", "kernel")

        def check(self, candidate):
            return events.TrialChecked(candidate.trial, events.blob_name(candidate.text), 0.0)

    commands = iter([[mine("one", cls="f32")]])
    log, _ = play(spec(CUMSUM.format(more=more)), Kernels(), lambda: next(commands, []), local_user=True)
    assert log[-1].state == state, log[-1]
    assert len(of(log, events.TrialProposed)) == (state == "done")
    assert [e.code for e in of(log, events.Noted)] == ["no_program"] * (state == "done")


def test_a_module_of_whole_numbers_has_the_one_class_that_it_is_computed_in():
    from engine.devices import Problem
    from tests.engine.graphs import Builder

    g = Builder()
    x = g.input("x", (64, 64), dtype="i64")
    graph = g.graph(g.op("add", [x, x], (64, 64), dtype="i64"))
    problem = Prepared(Problem("", "module", graph), ("tf32", "f16"), load("h200"))
    assert problem.classes == ["f32"] and list(problem.limits) == ["f32"]
