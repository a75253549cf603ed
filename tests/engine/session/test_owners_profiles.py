"""The owner's command `profile`: one answer for each request, beside the search, and never a trial."""

import time

import pytest

from engine.session import events
from engine.session.fold import profile as words_of
from engine.session.fold.reduce import fold
from engine.session.journal import Journal
from engine.session.script import profile
from engine.strategies.api import Reply, Together
from tests.engine.session.scripted import KernelDevice, Scripted, Searching, iter_of, of, play, resumed, tries
from tests.engine.session.test_owners_commands import heard, words
from tests.engine.test_session import play as play_session
from tests.engine.test_session import said_after

ASK = ("profile", {"trial": 1})


def ended(trial):
    return lambda log: any(isinstance(e, events.TrialJudged | events.TrialFailed) and e.trial == trial for e in log)


def after(number):
    return lambda log: len(of(log, events.TrialProposed)) >= number


def script(problem):
    return iter_of(*tries("bb", "cc", "dd"))


def asked_for(*spoken, device=None, **more):
    searching = Searching(Scripted(script), device, **more)
    return heard(searching, words(*spoken)), searching


def view_of(log):
    return fold([
        {"seq": n, "kind": e.KIND, "t": float(n), "data": events.encode(e)} for n, e in enumerate(log, 1)
    ])  # fmt: skip


def test_a_profile_without_a_profiler_is_of_the_compiler_and_the_model_and_is_no_trial():
    log, searching = asked_for((ended(1), ASK))
    (answer,) = of(log, events.TrialProfiled)
    text = searching.blobs[answer.text]
    assert (answer.trial, answer.request, answer.source, answer.refusal) == (1, 1, "model", "")
    assert text.startswith("Trial 1, class f16: measured ") and "times the limit of 0.01 ms" in text
    assert "By the model of the GPU:" in text and "By the compiler:" in text
    alone, _ = play(script)
    rest = [e for e in log if not isinstance(e, events.Controlled | events.TrialProfiled)]
    assert [e.KIND for e in rest] == [e.KIND for e in alone]
    assert of(rest, events.TrialJudged) == of(alone, events.TrialJudged)
    shown = view_of(log).trials[1].profile
    assert (shown.state, shown.source, shown.text) == ("ready", "model", answer.text) and shown.asked < shown.t


def test_a_profiler_answers_once_for_a_program_and_its_text_is_named_as_measured():
    calls = []

    def profiler(verb, turn):
        calls.append((verb.trial, turn.path))
        time.sleep(0.02)
        return Reply("memory 91% of peak")

    log, searching = asked_for((ended(1), ASK), (ended(2), ASK), handlers={"profile": profiler})
    first, second = of(log, events.TrialProfiled)
    assert (first.source, searching.blobs[first.text]) == ("profiler", "memory 91% of peak")
    assert (first.request, second.request) == (1, 2) and calls == [(1, "profile 1")]
    assert (second.source, second.text) == (first.source, first.text)
    assert searching.lanes.spent.seconds()["profile"] >= 0.015


def test_a_profiler_that_breaks_off_is_an_answer_and_one_that_is_absent_is_replaced():
    def broken(*_):
        raise OSError("the counters are locked")

    log, _ = asked_for((ended(1), ASK), handlers={"profile": broken})
    (answer,) = of(log, events.TrialProfiled)
    assert (answer.refusal, answer.text, answer.source) == ("broken", "", "") and "are locked" in answer.reason
    log, _ = asked_for((ended(1), ASK), handlers={"profile": lambda *_: Reply(refusal="no_profiler")})
    assert of(log, events.TrialProfiled)[0].source == "model"


def test_a_profiler_that_can_count_nothing_says_why_above_the_models_text():
    closed = Reply(refusal="no_profiler", reason="Nsight Compute did not run: the counters are closed.")
    log, searching = asked_for((ended(1), ASK), handlers={"profile": lambda *_: closed})
    (answer,) = of(log, events.TrialProfiled)
    text = searching.blobs[answer.text]
    assert answer.source == "model" and text.startswith(f"{closed.reason}\n\nTrial 1, class f16: measured ")


def test_a_profile_of_a_running_trial_is_made_when_it_ended():
    log, _ = asked_for((after(1), ASK))
    (answer,) = of(log, events.TrialProfiled)
    assert next(i for i, e in enumerate(log) if ended(1)([e])) < log.index(answer) and answer.source == "model"


def test_a_trial_without_a_time_has_no_profile():
    searching = Searching(Scripted(lambda problem: iter_of(*tries("it will fail", "bb"))))
    log = heard(searching, words((ended(1), ASK)))
    (answer,) = of(log, events.TrialProfiled)
    assert (answer.refusal, answer.text) == ("no_time", "") and answer.reason.startswith("Trial 1 has no time")
    assert view_of(log).trials[1].profile.state == "refused"


def test_a_pause_holds_a_profile_as_it_holds_a_try():
    def paused(log):
        return any(e.action == "profile" for e in of(log, events.Controlled))

    log, _ = asked_for((ended(1), ("pause", {})), (ended(1), ASK), (paused, ("resume", {})))
    resume = next(i for i, e in enumerate(log) if isinstance(e, events.Controlled) and e.action == "resume")
    assert resume < log.index(of(log, events.TrialProfiled)[0])


@pytest.mark.parametrize("data", [{}, {"trial": "1"}, {"trial": None}])
def test_a_request_that_names_no_trial_is_not_logged(data):
    log, _ = asked_for((ended(1), ("profile", data)))
    assert not of(log, events.Controlled)


def test_requests_that_are_open_at_the_end_are_refused_once():
    log, searching = asked_for((ended(1), ("profile", {"trial": 9})))
    assert not of(log, events.TrialProfiled)  # no trial 9 was ever proposed
    journal = Journal([*log, events.Controlled("profile", {"trial": 2})], searching.blobs.__getitem__)
    rest = [e.event for e in profile.refuse_rest(journal)]
    assert [(e.request, e.trial, e.refusal) for e in rest] == [(1, 9, "unknown_trial"), (2, 2, "ended")]
    assert rest[0].reason == "This session has no trial 9." and not list(profile.refuse_rest(journal))


def test_a_session_answers_each_request_before_its_end_and_counts_none_as_a_trial():
    log, _ = play_session(control=said_after(3, ("profile", {"trial": 99}), ("stop", {})))
    assert [(e.trial, e.request, e.refusal) for e in of(log, events.TrialProfiled)] == [(99, 1, "unknown_trial")]
    log, blobs = play_session(control=said_after(3, ASK))
    (answer,) = of(log, events.TrialProfiled)
    assert blobs[answer.text].startswith("Trial 1, class ") and isinstance(log[-1], events.SessionEnded)
    assert log[-1].trials == max(e.trial for e in of(log, events.TrialProposed)) and answer.refusal == ""


def test_a_cut_log_answers_each_request_once():
    calls = []

    def profiler(verb, turn):
        calls.append(turn.path)
        return Reply(f"of trial {verb.trial}")

    def pairs(problem):
        yield Together(tries("bb", "cc"))
        yield from iter_of(*tries("dd", "ee"))
        return ""

    searching = Searching(Scripted(pairs), KernelDevice(2), handlers={"profile": profiler})
    whole = list(heard(searching, words((ended(1), ASK), (after(3), ("profile", {"trial": 3})))))
    answers = [(e.request, e.trial, e.text) for e in of(whole, events.TrialProfiled)]
    assert [(request, trial) for request, trial, _ in answers] == [(1, 1), (2, 3)]
    for cut in range(len(whole) + 1):
        calls.clear()
        past = whole[:cut]
        missing = len(of(past, events.Controlled)) - len(of(past, events.TrialProfiled))
        again, _ = resumed(pairs, searching, cut, KernelDevice(2), handlers={"profile": profiler})
        known = len(of(past, events.Controlled))
        assert [(e.request, e.trial, e.text) for e in of(again, events.TrialProfiled)] == answers[:known], cut
        assert len(calls) == missing, cut


def test_the_words_of_a_profile_name_stages_kernels_and_their_units():
    parts = {"launch": 0.002, "main": 0.01}
    stage = {"name": "y", "kind": "gemm", "ms": 0.0123456, "bound_by": "tensor", "parts": parts, "flops": 2.1e9}
    stage |= {"bytes": 1.26e7, "note": "two waves"}
    kernel_ = {"kernel": "k", "registers": 168, "shared_bytes": 49152, "spill_bytes": 0}
    known = words_of.facts(3, "tf32", 0.0155, "measured", 0.01, 1.55, [stage], [kernel_])
    lines = words_of.in_words(known).splitlines()
    assert lines[0] == "Trial 3, class tf32: measured 0.0155 ms, 1.55 times the limit of 0.01 ms."
    assert lines[3] == (
        "- y (gemm): 0.01235 ms; bound by the matrix units; of it main 0.01 ms + launch 0.002 ms; 2.1 GFLOP; 12.6 MB. "
        "two waves"
    )
    assert lines[6] == "- k: 168 registers a thread, 49152 bytes of shared memory, no spills"
    bare = words_of.in_words(words_of.facts(1, "f16", 1.0, "measured", None, None, [], []))
    assert words_of.NO_STAGES in bare and words_of.NO_RESOURCES in bare


def test_the_longest_stage_is_by_its_work_and_not_by_the_launch_that_the_first_one_waits_for():
    cast = {"name": "x_f16", "ms": 0.00404, "parts": {"launch": 0.004, "main": 0.00004}}
    product = {"name": "h", "ms": 0.00305, "parts": {"launch": 0.0005, "main": 0.00255}}
    assert words_of.longest([cast, product]) is product and words_of.longest([product, cast]) is product
    without = {"name": "library", "ms": 0.003}
    assert words_of.longest([cast, product, without]) is without and words_of.longest([]) is None
