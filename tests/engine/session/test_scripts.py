"""A script's verbs are answered from the log where it has them, else by doing them; each answer carries the state."""

import threading

import pytest

from engine.session import events
from engine.session.script.search import OutOfBudget, StrategyChanged
from engine.strategies.api import Candidate, Receive, Screen, Together, Try
from tests.engine.counting import PROGRAM
from tests.engine.session.scripted import KernelDevice, iter_of, kernel, of, play, resumed, tries

# ---- paths and states ----


def test_a_verbs_path_is_its_place_and_its_digest_is_of_what_it_asks():
    def script(problem):
        yield Try(kernel("one"), "a change", "a reason", predicted_ms=0.5)
        yield Together(tries("two", "three"))
        return "Over."

    log, searching = play(script, KernelDevice(3))
    assert [e.path for e in of(log, events.TrialProposed)] == ["1", "2.1", "2.2"]
    assert [e.path for e in of(log, events.Advanced)] == ["0", "1", "2"]
    assert [e.verb for e in of(log, events.Advanced)] == ["start", "try", "together"]
    first = of(log, events.TrialProposed)[0]
    assert first.digest == Try(kernel("one"), "other words", "for the same thing").digest
    assert first.digest != Try(kernel("one"), parent=3).digest != Try(kernel("other")).digest
    assert (first.form, first.language, first.change) == ("kernel", "cuda", "a change")
    assert searching.reason == "Over."


def test_an_answer_carries_the_state_at_its_point_of_the_log():
    states = []

    def script(problem):
        states.append(problem.start)
        for text in ("a fail", "bb", "cc"):
            trial = yield Try(kernel(text))
            states.append(trial.state)
        return ""

    play(script, trials=3)
    assert [[t.number for t in s.trials] for s in states] == [[], [1], [1, 2], [1, 2, 3]]
    assert [s.stop for s in states] == ["", "", "", "The budget of 3 trials is used up."]
    assert states[0].baselines == {"f16": 1.0}


def test_a_finished_trial_says_what_can_be_learnt_from_it():
    answers = []

    def script(problem):
        answers.append((yield Try(Candidate(PROGRAM.replace("w.T", "wx.T"), "f16", "cute"))))
        answers.append((yield Try(Candidate(PROGRAM, "f16", "cute"))))
        answers.append((yield Try(kernel("a fail"))))
        return ""

    play(script)
    rejected, right, wrong = answers

    assert (rejected.failed, rejected.code) == ("check", "E101")
    (unknown,) = [d for d in rejected.diagnoses if d.code == "E101"]
    assert (unknown.line, unknown.column) == (2, 15) and "wx" in unknown.message
    assert right.verdict == "clean" and right.clean and right.kind == "predicted" and right.gap > 1
    assert [s["name"] for s in right.stages] == ["y"] and right.stages[0]["ms"] > 0
    assert [e["name"] for e in right.evidence] == ["precision", "limit"]
    assert (wrong.failed, wrong.code, wrong.log) == ("validate", "wrong_result", "a long log")
    assert wrong.reason.endswith("the result is wrong") and wrong.form == "kernel" and wrong.language == "cuda"


def test_a_kernel_goes_through_the_same_steps_and_nothing_is_generated():
    def script(problem):
        yield Try(kernel("one"))
        return ""

    log, _ = play(script)
    kinds = [e.KIND for e in log if e.KIND.startswith("trial.")]
    steps = ("proposed", "checked", "compiled", "validated", "measured", "judged")
    assert kinds == [f"trial.{step}" for step in steps]


def test_a_kernel_on_a_device_without_kernels_says_where_it_runs():
    class Programs(KernelDevice):
        forms = ("program",)

    def script(problem):
        yield Try(kernel("one"))
        return ""

    log, _ = play(script, Programs())
    (failed,) = of(log, events.TrialFailed)
    assert failed.code == "no_such_form" and "--device cuda" in failed.reason


# ---- together ----


def test_together_answers_in_list_order_whatever_ends_first():
    answers = []

    def script(problem):
        answers.extend((yield Together(tries("slow", "bb", "cc"))))
        return ""

    log, _ = play(script, KernelDevice(3, slow={"slow": 0.1}))
    ended = [e.trial for e in log if isinstance(e, events.TrialJudged | events.TrialFailed)]
    assert ended[-1] == 1
    assert [(t.number, t.text) for t in answers] == [(1, "slow"), (2, "bb"), (3, "cc")]
    assert all(len(t.state.trials) == 3 for t in answers)


class Meeting(KernelDevice):
    """Each build waits until as many are under way as there are lanes."""

    def build(self, candidate):
        self.barrier.wait()
        return super().build(candidate)


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_as_many_members_run_at_once_as_there_are_lanes_and_no_more(lanes):
    device = Meeting(lanes, jitter=0.002)
    device.barrier = threading.Barrier(lanes, timeout=60)
    log, _ = play(lambda problem: iter_of(Together(tries(*"abcdef"))), device)
    assert not [e for e in of(log, events.TrialFailed) if e.code == "engine_error"]
    assert device.most <= lanes


def test_members_meet_the_same_incumbent_and_the_fastest_of_them_is_the_best():
    def script(problem):
        yield Together(tries(*"abcdefgh"))
        return ""

    log, _ = play(script, KernelDevice(3))
    judged = of(log, events.TrialJudged)
    assert len(judged) > 2 and all(e.best == (e.speedup > 1) for e in judged)


def test_members_beyond_the_budget_are_not_proposed_and_say_so():
    answers = []

    def script(problem):
        answers.extend((yield Together(tries("bb", "cc", "dd"))))
        return ""

    log, _ = play(script, trials=2)
    assert len(of(log, events.TrialProposed)) == 2
    assert (answers[2].number, answers[2].code) == (0, "budget") and "2 trials" in answers[2].reason


def test_a_trial_beyond_the_budget_ends_the_search():
    closed = []

    def script(problem):
        try:
            for text in "abcdef":
                yield Try(kernel(text))
        finally:
            closed.append(True)

    log, searching = play(script, trials=2)
    assert searching.reason == "The budget of 2 trials is used up." and closed
    assert len(of(log, events.TrialProposed)) == 2 and OutOfBudget is not None


def test_together_takes_no_receive_and_no_together():
    for member in (Receive(), Together(tries("a"))):
        with pytest.raises(TypeError, match="Together takes"):
            Together((member,))


# ---- quick times ----


def test_quick_times_are_a_hint_in_the_order_asked():
    answers = []

    def script(problem):
        candidates = tuple(
            Candidate(PROGRAM.replace("128x128x64", t), "f16", "cute") for t in ("64x64x64", "128x64x64")
        )
        answers.append((yield Screen(candidates)))
        answers.append((yield Screen((*candidates[:1], Candidate("program broken", "f16", "cute")))))
        return ""

    log, searching = play(script)
    first, second = answers
    assert all(ms is not None for ms in first.ms) and second.ms == (first.ms[0], None)
    assert set(first.state.quick.values()) == set(first.ms)
    again, _ = resumed(script, searching, len(log))
    assert again == log and answers[2:] == answers[:2]


# ---- a script that changed ----


@pytest.mark.parametrize(
    "other",
    [
        lambda problem: iter_of(Try(kernel("other")), Try(kernel("cc"))),
        lambda problem: iter_of(Together(tries("bb", "cc"))),
        lambda problem: iter_of(Screen((kernel("bb"),)), Try(kernel("bb"))),
        lambda problem: iter_of(Try(kernel("bb"))),
        lambda problem: iter_of(),
    ],
)
def test_a_script_that_asks_for_something_else_ends_the_session(other):
    def script(problem):
        yield from iter_of(Try(kernel("bb")), Try(kernel("cc")))
        return ""

    log, searching = play(script)
    with pytest.raises(StrategyChanged, match="Fork the session"):
        resumed(other, searching, len(log))


def test_a_together_that_lost_a_member_is_another():
    log, searching = play(lambda problem: iter_of(Together(tries("bb", "cc", "dd"))))
    with pytest.raises(StrategyChanged):
        resumed(lambda problem: iter_of(Together(tries("bb", "cc"))), searching, len(log))
    with pytest.raises(StrategyChanged):
        resumed(lambda problem: iter_of(Try(kernel("bb"))), searching, len(log) - 1)


def test_chance_comes_from_the_sessions_seed():
    def script(problem):
        yield Try(kernel(f"{problem.rng.random()}"))
        return ""

    log, searching = play(script, seed=4)
    again, _ = resumed(script, searching, 1, seed=4)
    assert again == log
    assert of(play(script, seed=5)[0], events.TrialProposed)[0].program != of(log, events.TrialProposed)[0].program
