"""A finding that a trial has from the one that it was made from is named as inherited."""

from dataclasses import replace

from engine.evaluate.integrity.trial import GAMING, PASSED, check
from engine.session import events
from engine.session.verdict import inherited
from engine.strategies.api import Try
from tests.engine.session.scripted import KernelDevice, kernel, of, play

STALE, FINE = check("stale", GAMING, "it gives an old result"), check("stale", PASSED, "fresh")


class Seeing(KernelDevice):
    """Finds an old result in every kernel with "cheat" in its text."""

    def measure(self, candidate, baseline):
        measured = super().measure(candidate, baseline)
        return replace(measured, checks=[STALE if "cheat" in candidate.text else FINE])


def lines(log):
    return [[line["said"] for line in e.evidence if line["name"] == "lineage"] for e in of(log, events.TrialJudged)]


def test_the_origin_of_a_finding_is_named_through_all_ancestors():
    def script(problem):
        first = yield Try(kernel("cheat a"))
        second = yield Try(kernel("cheat b"), parent=first.number)
        yield Try(kernel("cheat c"), parent=second.number)
        yield Try(kernel("cheat e"))
        yield Try(kernel("honest"), parent=first.number)
        return ""

    log, _ = play(script, Seeing())
    own, child, grandchild, alone, honest = lines(log)
    assert own == alone == honest == []
    assert "trial 1" in child[0] and "inherited" in child[0] and "stale" in child[0]
    assert "trial 1" in grandchild[0]
    assert [e.verdict for e in of(log, events.TrialJudged)] == ["gaming"] * 4 + ["clean"]


def test_only_the_same_finding_is_inherited():
    other = check("library", GAMING, "it calls a library")
    assert inherited([STALE], [(1, [other]), (2, [FINE])]) == []
    assert inherited([FINE], [(1, [STALE])]) == []
