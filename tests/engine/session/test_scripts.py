"""A script's verbs are answered from the log where it has them, else by doing them; each answer carries the state."""

import threading
import time

import pytest
from pydantic import BaseModel

from engine.session import events
from engine.session.script import turns
from engine.session.script.search import OutOfBudget, StrategyChanged
from engine.session.script.steps import Stopped
from engine.strategies.api import Ask, Candidate, Profile, Receive, Reply, Screen, Together, Try
from tests.engine.counting import PROGRAM
from tests.engine.session.scripted import KernelDevice, Scripted, Searching, kernel, of, tries


def play(script, device=None, **more):
    searching = Searching(Scripted(script, more.pop("receives", False)), device, **more)
    return searching.run(), searching


def resumed(script, searching, cut, device=None, **more):
    """The log of an engine that takes the session up after `cut` events."""
    log = searching.journal.log[:cut]
    return play(script, device, past=log, blobs=searching.blobs, **more)


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
    device.barrier = threading.Barrier(lanes, timeout=20)
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


# ---- turns ----


class Plan(BaseModel):
    tile: int


def ask(problem):
    reply = yield Ask("plan", "Which tile?", Plan)
    yield Try(kernel(f"tile {reply.value.tile if reply.value else reply.refusal}"))
    return ""


def test_without_a_model_a_turn_is_refused_in_words():
    log, _ = play(ask)
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "no_model" and "no model" in answered.reason and not of(log, events.Asked)
    profiled, _ = play(lambda problem: iter_of(Profile(1)))
    assert of(profiled, events.Answered)[0].refusal == "no_profiler"


def iter_of(*verbs):
    for verb in verbs:  # noqa: UP028 - a tuple takes no answers
        yield verb
    return ""


def test_a_turn_is_logged_with_its_prompt_and_its_reply():
    def handler(verb, path, cancelled):
        assert (verb.role, path) == ("plan", "1")
        return Reply('{"tile": 64}', model="m", tokens={"in": 5, "out": 3}, cost=0.01, seconds=0.5, finish="stop")

    log, searching = play(ask, handlers={"ask": handler})
    (asked,), (answered,) = of(log, events.Asked), of(log, events.Answered)
    assert searching.blobs[asked.prompt] == "Which tile?" and (asked.role, asked.attempt) == ("plan", 1)
    assert searching.blobs[answered.text] == '{"tile": 64}' and answered.tokens == {"in": 5, "out": 3}
    assert (asked.path, asked.digest) == (answered.path, answered.digest)
    assert "tile 64" in searching.blobs.values()


def test_a_reply_that_fits_no_schema_says_what_is_wrong():
    log, _ = play(ask, handlers={"ask": lambda *_: Reply('{"tile": "big"}')})
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "schema" and answered.reason.startswith("tile: ")


def test_a_turn_that_breaks_off_is_an_answer():
    def handler(*_):
        raise OSError("the line was cut")

    log, _ = play(ask, handlers={"ask": handler})
    assert of(log, events.Answered)[0].refusal == "broken" and "the line was cut" in of(log, events.Answered)[0].reason
    assert len(of(log, events.TrialProposed)) == 1


def test_an_answered_turn_is_never_asked_again_and_one_under_way_once_more():
    calls = []

    def handler(verb, path, cancelled):
        calls.append(path)
        return Reply('{"tile": 64}')

    log, searching = play(ask, handlers={"ask": handler})
    place = log.index(of(log, events.Answered)[0])
    for cut in range(place + 1, len(log) + 1):
        resumed(ask, searching, cut, handlers={"ask": handler})
    assert calls == ["1"]
    again, second = resumed(ask, searching, place, handlers={"ask": handler})
    assert calls == ["1", "1"] and [e.attempt for e in of(again, events.Asked)] == [1, 2]
    third, _ = resumed(ask, second, place + 1, handlers={"ask": handler})  # lost in the second attempt too
    assert calls == ["1", "1"] and of(third, events.Answered)[0].refusal == "lost"


def test_turns_of_together_wait_for_their_models_at_once():
    barrier = threading.Barrier(3, timeout=10)

    def handler(verb, path, cancelled):
        barrier.wait()
        return Reply(verb.prompt.upper())

    def script(problem):
        replies = yield Together(tuple(Ask("r", text) for text in "abc"))
        return " ".join(r.text for r in replies)

    _, searching = play(script, KernelDevice(1), handlers={"ask": handler})
    assert searching.reason == "A B C"


def test_a_stop_ends_each_open_turn_and_trial():
    """The frame of the session logs the ends; here the search lets go."""
    begun = threading.Event()

    def handler(verb, path, cancelled):
        begun.set()
        while not cancelled():
            time.sleep(0.001)
        return Reply("too late")

    def control():
        return [("stop", {})] if begun.is_set() else []

    with pytest.raises(Stopped):
        play(lambda problem: iter_of(Ask("r", "p")), handlers={"ask": handler}, control=control)
    asked = events.Asked("1", "d", "ask")
    assert turns.stopped(asked).refusal == "stopped"


# ---- the owner's candidates ----


def words(*spoken):
    """The owner's words, each after an event of the log that `after(log)` recognises."""
    waiting = list(spoken)

    def control(log):
        now = [word for after, word in waiting if after(log)]
        waiting[:] = [(after, word) for after, word in waiting if not after(log)]
        return now

    return control


def log_of(searching, control):
    searching.owner._control = lambda: control(searching.journal.log)
    return searching.run()


def after_advanced(path):
    return lambda log: any(isinstance(e, events.Advanced) and e.path == path for e in log)


def test_the_owners_tries_have_numbers_of_their_own_and_shift_no_path():
    def script(problem):
        for text in ("bb", "cc"):
            yield Try(kernel(text))
        return ""

    mine = ("try", {"program": "mine", "form": "kernel", "language": "cuda"})
    searching = Searching(Scripted(script))
    log = log_of(searching, words((after_advanced("0"), mine)))
    proposed = [(e.trial, e.by, e.path, e.request) for e in of(log, events.TrialProposed)]
    assert proposed == [(1, "strategy", "1", None), (2, "owner", "", 1), (3, "strategy", "2", None)]


def test_a_try_of_a_kernel_keeps_its_form_language_entry_and_class():
    mine = ("try", {"program": "mine", "form": "kernel", "language": "python", "entry": "Fast", "cls": "f16"})
    searching = Searching(Scripted(lambda problem: iter_of(Try(kernel("bb")))))
    log = log_of(searching, words((after_advanced("0"), mine)))
    own = next(e for e in of(log, events.TrialProposed) if e.by == "owner")
    assert (own.form, own.language, own.entry, own.cls, own.change) == (
        "kernel",
        "python",
        "Fast",
        "f16",
        "your kernel",
    )


def test_a_try_runs_on_a_lane_that_is_free_while_the_strategys_trial_runs():
    searching = Searching(Scripted(lambda problem: iter_of(Try(kernel("slow")))), KernelDevice(2, {"slow": 0.2}))
    mine = ("try", {"program": "mine", "form": "kernel", "language": "cuda"})
    log = log_of(searching, words((after_advanced("0"), mine)))
    ended = [e.trial for e in log if isinstance(e, events.TrialJudged | events.TrialFailed)]
    assert ended == [2, 1]


def test_a_script_that_receives_is_given_each_candidate_once():
    received = []

    def script(problem):
        for _ in range(2):
            answer = yield Receive()
            received.append(answer.candidate.text)
            yield Try(answer.candidate, why="handed in")
        return ""

    searching = Searching(Scripted(script, receives=True))
    mine = [("try", {"program": text, "form": "kernel", "language": "cuda"}) for text in ("m1", "m2", "m3")]
    log = log_of(searching, words(*((after_advanced("0"), w) for w in mine)))
    assert received == ["m1", "m2"]
    by = [(e.by, e.request) for e in of(log, events.TrialProposed)]
    assert by == [("strategy", None), ("strategy", None), ("owner", 3)]  # what is left over is tried at the end
    again, _ = resumed(script, searching, len(log), receives=True)
    assert again == log and received == ["m1", "m2", "m1", "m2"]


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


# ---- a budget that is changed after it was used up ----


def raised(step):
    """The owner raises the budget when the log holds the state line of a step."""
    return words((lambda log: any(isinstance(e, events.Progress) and e.step == step for e in log), MORE))


MORE = ("budget", {"trials": 5})


def test_a_member_that_the_budget_refused_stays_refused_after_the_budget_was_raised():
    answers = []

    def script(problem):
        yield Try(kernel("one"))
        answers.append((yield Together((*tries("two"), Ask("r", "p"))))[0])
        return ""

    searching = Searching(Scripted(script), trials=1, handlers={"ask": lambda *_: Reply("r")})
    log = log_of(searching, raised("propose"))
    assert [e.path for e in of(log, events.TrialProposed)] == ["1"] and answers[0].code == "budget"
    place = log.index(of(log, events.Controlled)[0])
    again, _ = resumed(script, searching, place + 1, trials=1, handlers={"ask": lambda *_: Reply("r")})
    assert [e.path for e in of(again, events.TrialProposed)] == ["1"] and answers[1] == answers[0]
    assert answers[0].reason == "The budget of 1 trial is used up."


def test_a_search_that_the_budget_ended_stays_ended_after_the_budget_was_raised():
    searching = Searching(Scripted(lambda problem: iter_of(*tries("one", "two"))), trials=1)
    log = log_of(searching, raised("propose"))
    again, second = resumed(lambda problem: iter_of(*tries("one", "two")), searching, len(log), trials=1)
    assert again == log and len(of(log, events.Controlled)) == len(of(log, events.TrialProposed)) == 1
    for one in (searching, second):
        assert (one.code, one.reason) == ("budget_used", "The budget of 1 trial is used up.")
