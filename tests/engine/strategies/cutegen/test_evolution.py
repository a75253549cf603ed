"""One evolving kernel: each depth starts from the last one that passed, failures are fixed, then written anew, and the
profile is shown late."""

import json

import pytest

from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Finished, Reply
from engine.strategies.cutegen import Cutegen
from engine.strategies.cutegen.evolution import passes
from engine.strategies.writing import UNUSABLE
from tests.engine.session.scripted import NoGpu, Searching, of

MOST_SHOWN = 6_000  # characters of one Show


def play(handler, trials=12, **options):
    options = {"form": "program"} | options
    searching = Searching(Cutegen(Cutegen.Options(**options)), handlers={"ask": handler}, trials=trials)
    return searching.run(), searching


def rehearsed(skill=1.0, seed=0, prompts=None):
    player = Player(skill, seed)

    def handler(ask, turn):
        if prompts is not None:
            prompts.append((ask.role, ask.prompt))
        return Reply(player.reply(ask.prompt), model="rehearsed")

    return handler


def shown(log, topic):
    return [e.facts for e in of(log, events.Shown) if e.topic == topic]


def rungs(log):
    """Each depth as it ended."""
    return [f for f in shown(log, "depth") if f["state"] != "started"]


@pytest.fixture(scope="module")
def whole():
    prompts = []
    log, searching = play(rehearsed(prompts=prompts))
    return log, searching, prompts


def test_each_depth_starts_from_the_last_that_passed_even_a_slower_one(whole):
    log, searching, _ = whole
    ladder = rungs(log)
    assert [f["depth"] for f in ladder] == list(range(11)) and {f["state"] for f in ladder} == {"passed"}
    assert [f["base"] for f in ladder] == [None, *(f["trial"] for f in ladder[:-1])]
    assert [e.parent for e in of(log, events.TrialProposed)] == [f["base"] for f in ladder]
    slower = [f for f in ladder if f["base"] and f["base"] != f["best"] and f["base_ms"] > f["best_ms"]]
    assert slower, "no depth of this session started from a kernel that is not the best"
    assert searching.reason == "All of the 10 depths were used."


def test_each_depth_has_the_item_of_the_menu_for_its_class(whole):
    log, _, prompts = whole
    (work,) = shown(log, "workload")
    assert work["class"] == "product" and work["why"] and work["reveal"] == 6
    assert [f["item"] for f in rungs(log)] == ["first kernel", *work["menu"]]
    optimise = [text for role, text in prompts if role == "optimise"]
    assert all(f"is:\n{title}." in text for title, text in zip(work["menu"], optimise, strict=True))


def test_the_profile_is_shown_late_and_what_was_derived_is_logged(whole):
    log, _, prompts = whole
    optimise = [text for role, text in prompts if role == "optimise"]
    assert ["# Profile of trial" in text for text in optimise] == [False] * 5 + [True] * 5
    first, *later = shown(log, "profile_revealed")
    assert first["depth"] == 6 and first["first"] and not any(f["first"] for f in later)
    assert first["bottleneck"].startswith("Rehearsed: stage y is bound by") and first["observations"]
    assert first["bottleneck"] in optimise[5]


@pytest.mark.parametrize(("profile", "depths"), [("never", []), ("always", [1, 2])])
def test_the_profile_can_be_shown_never_or_always(profile, depths):
    log, _ = play(rehearsed(), depths=2, profile=profile)
    assert [f["depth"] for f in shown(log, "profile_revealed")] == depths


def wrong(ask, turn):
    return Reply(json.dumps({"program": f"program p{turn.path.replace('.', '_')}(", "cls": "f16", "change": "wrong"}))


def test_a_failure_is_fixed_five_times_then_written_anew_three_times_and_the_session_says_so():
    log, searching = play(wrong, trials=60)
    roles = [e.role for e in of(log, events.Asked)]
    assert roles == (["generate"] + ["fix"] * 5) * 4
    assert [f["then"] for f in shown(log, "debug")] == (["fix"] * 5 + ["regenerate"]) * 3 + ["fix"] * 5 + ["leave out"]
    assert searching.reason == "No candidate passed. Fixes: 20. Regenerations: 3."
    assert (rungs(log)[-1]["fixes"], rungs(log)[-1]["regenerations"]) == (20, 3)


def test_a_depth_that_never_passes_is_left_out_and_the_kernel_stays():
    good = rehearsed()

    def handler(ask, turn):
        return good(ask, turn) if ask.role == "generate" or "depth 2 of" in ask.prompt else wrong(ask, turn)

    log, _ = play(handler, trials=40, depths=2, fixes=1, regenerations=1)
    first, left_out, second = rungs(log)
    assert (left_out["state"], left_out["trial"], len(left_out["trials"])) == ("left out", None, 4)
    assert second["base"] == first["trial"] == 1 and second["state"] == "passed"
    assert left_out["words"].startswith("failed at check")


def test_a_fix_reads_the_step_the_words_and_the_text_of_the_failure():
    prompts, good = [], rehearsed()

    def handler(ask, turn):
        prompts.append((ask.role, ask.prompt))
        return wrong(ask, turn) if len(prompts) == 1 else good(ask, turn)

    log, _ = play(handler, trials=2, depths=1)
    role, text = prompts[1]
    failed = of(log, events.TrialFailed)[0]
    assert role == "fix" and "Trial 1 did not pass at the step check:" in text and failed.reason[:60] in text
    assert of(log, events.TrialProposed)[1].parent == 1


def test_a_reply_without_a_candidate_has_nothing_to_fix():
    log, _ = play(lambda *_: Reply("no"), trials=9)
    assert {e.role for e in of(log, events.Asked)} == {"generate"}
    assert {e.change for e in of(log, events.TrialProposed)} == {UNUSABLE} and len(of(log, events.TrialProposed)) == 4


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_the_rehearsal_mends_the_mistakes_that_it_makes(seed):
    log, _ = play(rehearsed(skill=0.35, seed=seed), trials=12)
    proposed = {e.trial: e for e in of(log, events.TrialProposed)}
    failed = {e.trial for e in of(log, events.TrialFailed)}
    assert failed and of(log, events.TrialJudged)
    mended = [n for n, e in proposed.items() if e.change.endswith(", mended")]
    assert all(proposed[n].parent in failed for n in mended)


def test_what_is_shown_is_bounded():
    long = {"program": "program p(" + "x" * 30_000, "cls": "f16", "change": "c" * 300, "why": "w" * 600}
    log, _ = play(lambda *_: Reply(json.dumps(long)), trials=5)
    assert all(len(json.dumps(e.facts)) < MOST_SHOWN for e in of(log, events.Shown))


def test_raw_kernels_evolve_in_the_same_way():
    texts = iter(f"import cutlass.cute as cute  # {n}\nclass ModelNew: pass\n" for n in range(40))

    def handler(ask, turn):
        assert ask.role == "derive" or "Write the kernel in Python with CuTe DSL" in ask.prompt
        if ask.role == "derive":
            return Reply('{"bottleneck": "memory", "observations": ["71% of the bandwidth"]}')
        return Reply(json.dumps({"source": next(texts), "language": "python", "cls": "f16", "change": "c"}))

    log, _ = play(handler, form="kernel", trials=12, depths=7)
    assert {(e.form, e.language) for e in of(log, events.TrialProposed)} == {("kernel", "python")}
    ladder = rungs(log)
    assert len(ladder) >= 7 and all(f["trial"] for f in ladder if f["state"] == "passed")
    assert shown(log, "profile_revealed")


def test_a_kernel_that_this_machine_cannot_run_is_neither_fixed_nor_written_anew():
    texts = iter(range(40))

    def handler(ask, turn):
        text = f"import cutlass.cute as cute  # {next(texts)}\nclass ModelNew: pass\n"
        return Reply(json.dumps({"source": text, "language": "python", "cls": "f16", "change": "c"}))

    options = Cutegen.Options(form="kernel")
    searching = Searching(Cutegen(options), NoGpu(), handlers={"ask": handler}, trials=12)
    log = searching.run()
    assert len(of(log, events.TrialProposed)) == 1 and not shown(log, "debug")
    assert searching.reason.startswith("Trial 1 cannot run on this machine, and nor could another kernel: compiled")
    (rung,) = rungs(log)
    assert rung["state"] == "stopped" and rung["trials"] == [1] and "no GPU here" in rung["words"]


def test_what_passes():
    right = Finished(1, "x", "f16", ms=1.0)
    untimed = Finished(1, "x", "f16", clean=False, untimed=True, verdict="clean", code="no_prediction")
    assert passes(right) and passes(untimed)
    assert not passes(Finished(1, "x", "f16", failed="check", clean=False))
    assert not passes(Finished(1, "x", "f16", ms=1.0, clean=False, verdict="gaming"))
    assert not passes(Finished(1, "x", "f16", clean=False, untimed=True, verdict="library only"))
