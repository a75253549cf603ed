"""The owner's candidates and budget beside a script."""

from engine.session import events
from engine.strategies.api import Ask, Receive, Reply, Together, Try
from tests.engine.session.scripted import KernelDevice, Scripted, Searching, iter_of, kernel, of, resumed, tries


def words(*spoken):
    """The owner's words, each after an event of the log that `after(log)` recognises."""
    waiting = list(spoken)

    def control(log):
        now = [word for after, word in waiting if after(log)]
        waiting[:] = [(after, word) for after, word in waiting if not after(log)]
        return now

    return control


def heard(searching, control):
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
    log = heard(searching, words((after_advanced("0"), mine)))
    proposed = [(e.trial, e.by, e.path, e.request) for e in of(log, events.TrialProposed)]
    assert proposed == [(1, "strategy", "1", None), (2, "owner", "", 1), (3, "strategy", "2", None)]


def test_a_try_of_a_kernel_keeps_its_form_language_entry_and_class():
    mine = ("try", {"program": "mine", "form": "kernel", "language": "python", "entry": "Fast", "cls": "f16"})
    searching = Searching(Scripted(lambda problem: iter_of(Try(kernel("bb")))))
    log = heard(searching, words((after_advanced("0"), mine)))
    own = next(e for e in of(log, events.TrialProposed) if e.by == "owner")
    assert (own.form, own.language, own.entry, own.cls, own.change) == (
        "kernel",
        "python",
        "Fast",
        "f16",
        "the owner's kernel",
    )


def test_a_try_runs_on_a_lane_that_is_free_while_the_strategys_trial_runs():
    searching = Searching(Scripted(lambda problem: iter_of(Try(kernel("slow")))), KernelDevice(2, {"slow": 0.2}))
    mine = ("try", {"program": "mine", "form": "kernel", "language": "cuda"})
    log = heard(searching, words((after_advanced("0"), mine)))
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
    log = heard(searching, words(*((after_advanced("0"), w) for w in mine)))
    assert received == ["m1", "m2"]
    by = [(e.by, e.request) for e in of(log, events.TrialProposed)]
    assert by == [("strategy", None), ("strategy", None), ("owner", 3)]  # what is left over is tried at the end
    again, _ = resumed(script, searching, len(log), receives=True)
    assert again == log and received == ["m1", "m2", "m1", "m2"]


def test_a_try_that_a_pause_holds_says_so_in_the_log():
    mine = ("try", {"program": "mine", "form": "kernel", "language": "cuda"})

    def controlled(log):
        return [e.action for e in of(log, events.Controlled)]

    searching = Searching(Scripted(lambda problem: iter_of(Try(kernel("bb")))))
    commands = words(
        (after_advanced("0"), mine),
        (after_advanced("0"), ("pause", {})),
        (lambda log: "pause" in controlled(log), mine),
        (lambda log: controlled(log).count("try") == 2, ("resume", {})),
    )
    log = heard(searching, commands)
    commands_heard = [(e.action, e.data.get("waits")) for e in of(log, events.Controlled)]
    assert commands_heard == [("try", None), ("pause", None), ("try", "paused"), ("resume", None)]
    delayed = next(e for e in of(log, events.Controlled) if e.data.get("waits"))
    (proposed,) = (e for e in of(log, events.TrialProposed) if e.request == 2)
    resume = next(e for e in of(log, events.Controlled) if e.action == "resume")
    assert log.index(delayed) < log.index(resume) < log.index(proposed)


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
    log = heard(searching, raised("propose"))
    assert [e.path for e in of(log, events.TrialProposed)] == ["1"] and answers[0].code == "budget"
    place = log.index(of(log, events.Controlled)[0])
    again, _ = resumed(script, searching, place + 1, trials=1, handlers={"ask": lambda *_: Reply("r")})
    assert [e.path for e in of(again, events.TrialProposed)] == ["1"] and answers[1] == answers[0]
    assert answers[0].reason == "The budget of 1 trial is used up."


def test_a_search_that_the_budget_ended_stays_ended_after_the_budget_was_raised():
    searching = Searching(Scripted(lambda problem: iter_of(*tries("one", "two"))), trials=1)
    log = heard(searching, raised("propose"))
    again, second = resumed(lambda problem: iter_of(*tries("one", "two")), searching, len(log), trials=1)
    assert again == log and len(of(log, events.Controlled)) == len(of(log, events.TrialProposed)) == 1
    for one in (searching, second):
        assert (one.code, one.reason) == ("budget_used", "The budget of 1 trial is used up.")
