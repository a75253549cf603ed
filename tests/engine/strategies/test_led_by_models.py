"""Strategies led by a model: each reaches a faster program with the rehearsal, and survives any reply."""

import pytest

from dsl.check.program import check
from engine.llm.rehearse.player import Player
from engine.llm.replies import Idea
from engine.session import events
from engine.strategies import registry
from engine.strategies.api import Finished, Reply, State
from engine.strategies.mucutlass import phases
from engine.strategies.mucutlass.memory import action_of, lines_of, parsed
from engine.strategies.planner.search.build_cost import CPP_TRIALS
from engine.strategies.planner.search.refining import Refiner
from sol.triage import Memory, Outcome
from tests.engine.counting import PROGRAM
from tests.engine.session.scripted import Searching, of, problem

NAMES = ("flat", "best_of", "chain", "mucutlass", "optiml", "two_stage", "cutegen")
OPTIONS = {
    "flat": {"attempts": 6}, "best_of": {"n": 6}, "chain": {"attempts": 6},
    "mucutlass": {"iterations": 2, "attempts": 3}, "optiml": {"evaluations": 6},
    "two_stage": {"rounds": 2, "screened": 1}, "cutegen": {"form": "program", "depths": 5},
}  # fmt: skip


def strategy(name, **options):
    kind = registry.available()[name]
    return kind(kind.Options(**(OPTIONS[name] | options)))


def play(name, handler, **more):
    options = more.pop("options", {})
    searching = Searching(strategy(name, **options), handlers={"ask": handler}, **more)
    return searching.run(), searching


def rehearsed(skill: float = 1.0):
    player = Player(skill)
    return lambda ask, turn: Reply(player.reply(ask.prompt), model="rehearsed")


@pytest.mark.parametrize("name", NAMES)
def test_with_full_skill_each_strategy_has_a_right_program(name):
    log, searching = play(name, rehearsed(), trials=6)
    assert [e for e in of(log, events.TrialJudged) if e.verdict == "clean"]
    assert all(e.cls == "f16" for e in of(log, events.TrialProposed))
    assert searching.reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("rule", "words"), [({"eps": 99.0}, "f16: within 9900% of the limit"), ({"window": 1}, "f16: 1 trial in a row")]
)
def test_the_stop_rule_of_the_session_ends_the_model_s_part(name, rule, words):
    log, searching = play(name, rehearsed(), trials=30, **rule)
    assert searching.reason.startswith(words) and searching.code == "search_over", searching.reason
    assert len(of(log, events.TrialProposed)) <= 6 and str(searching.fold.stops["f16"]) in searching.reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", "no", "{", '{"program": 3}', "null", "x" * 100_000, "\x00\ud800"])
def test_a_model_that_writes_nothing_usable_ends_with_the_budget(name, text):
    log, _ = play(name, lambda *_: Reply(text), trials=3)
    proposed, failed = of(log, events.TrialProposed), of(log, events.TrialFailed)
    assert len(proposed) == len(failed) <= 3
    assert name == "mucutlass" or {e.change for e in proposed} == {"no usable reply"}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_model_it_ends_at_once_and_says_what_to_do(name):
    log, searching = play(name, lambda *_: Reply(refusal="no_model", reason="No model is set."), trials=3)
    assert not of(log, events.TrialProposed) and searching.reason == "No model is set."


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_log_cut_at_every_fifth_event_gives_the_same_rest_and_asks_no_answered_turn_again(name, refine):
    few = {"mucutlass": {"iterations": 1, "hypotheses": 1, "attempts": 2}, "cutegen": {"depths": 1}}
    options = few.get(name, {})
    options, trials = options | {"refine": refine}, 4 if refine else 2
    log, whole = play(name, rehearsed(), trials=trials, options=options)
    assert bool(proposals(log)[1]) == refine
    for cut in range(0, len(log), 5):
        asked, answer = [], rehearsed()

        def handler(ask, turn, asked=asked, answer=answer):
            asked.append(turn.path)
            return answer(ask, turn)

        again = Searching(
            strategy(name, **options), handlers={"ask": handler}, past=log[:cut], blobs=whole.blobs, trials=trials
        )
        rest = again.run()
        answered = {e.path for e in log[:cut] if isinstance(e, events.Answered)}
        assert not answered & set(asked)
        assert of(rest, events.TrialProposed) == of(log, events.TrialProposed)
        assert of(rest, events.Shown) == of(log, events.Shown) and again.reason == whole.reason
        assert [(e.path, e.digest) for e in of(rest, events.Advanced)] == [
            (e.path, e.digest) for e in of(log, events.Advanced)
        ]


# ---- the planner refines the best program ----

REFINED = "the planner refines trial"


def shown(log):
    return [e.facts for e in of(log, events.Shown) if e.topic == "refinement"]


def proposals(log):
    """The model's proposals, and the planner's refinements."""
    every = of(log, events.TrialProposed)
    return [e for e in every if REFINED not in e.why], [e for e in every if REFINED in e.why]


@pytest.mark.parametrize("name", NAMES)
def test_the_planner_refines_the_best_program_with_the_trials_that_are_kept_for_it(name):
    options = {"refine": True, "reserve": 50} | ({"iterations": 5} if name == "mucutlass" else {})
    log, searching = play(name, rehearsed(), trials=6, options=options)
    model, planner = proposals(log)
    assert len(model) == len(planner) == 3
    assert planner[-1].trial == 6 and searching.code == "budget_used"
    ms = {e.trial: e.ms for e in of(log, events.TrialJudged)}
    for e in planner:
        before = {n: ms[n] for n in ms if n < e.trial}
        assert e.parent == min(before, key=lambda n: (before[n], n)) and f"{REFINED} {e.parent}, " in e.why
        assert " -> " in e.change and "," not in e.change and "one clause changed" in e.why
        assert check(searching.blobs[e.program]).ok
    programs = [e.program for e in of(log, events.TrialProposed)]
    assert all(programs.count(e.program) == 1 for e in planner)
    (facts,) = shown(log)
    assert facts["best"] == planner[0].parent and "The model used its 3 trials of 6." in facts["words"]


def test_a_quarter_is_kept_and_what_the_script_leaves_is_added():
    log, _ = play("flat", rehearsed(), trials=8, options={"refine": True, "attempts": 40})
    assert [len(part) for part in proposals(log)] == [6, 2]
    log, _ = play("flat", rehearsed(), trials=8, options={"refine": True, "attempts": 3, "reserve": 0})
    assert [len(part) for part in proposals(log)] == [3, 5]
    assert shown(log)[0]["words"].startswith("All of the 3 attempts were used. The planner refines trial")


@pytest.mark.parametrize("name", NAMES)
def test_off_by_default(name):
    log, _ = play(name, rehearsed(), trials=4)
    assert not shown(log) and not proposals(log)[1]


def test_where_the_models_turns_are_over_the_planner_has_the_rest():
    turns, player = [], Player()

    def handler(ask, turn):
        turns.append(turn)
        spent = Reply(refusal="over_budget", reason="The tokens of this session are used up.")
        return spent if len(turns) > 2 else Reply(player.reply(ask.prompt))

    log, _ = play("chain", handler, trials=7, options={"refine": True})
    assert [len(part) for part in proposals(log)] == [2, 5] and len(turns) == 3
    assert shown(log)[0]["words"].startswith("The tokens of this session are used up. The planner refines trial")


@pytest.mark.parametrize("name", NAMES)
def test_without_a_right_program_nothing_is_kept_and_one_line_says_why(name):
    log, _ = play(name, lambda *_: Reply("no"), trials=4, options={"refine": True})
    model, planner = proposals(log)
    assert not planner and [f["best"] for f in shown(log)] == [None]
    assert len(model) == (3 if name == "best_of" else 4)
    assert shown(log)[0]["words"] == "Nothing was refined: no program ran correctly."


def test_a_kernel_is_not_refined_and_one_line_says_why():
    log, searching = play("flat", rehearsed(), trials=8, options={"refine": True, "form": "kernel", "attempts": 3})
    assert len(of(log, events.TrialProposed)) == 3
    assert searching.reason.endswith("the planner refines programs, and this session writes kernels.")
    assert shown(log)[0]["words"] in searching.reason


def test_a_program_without_a_product_is_not_refined_and_the_model_has_all_trials():
    refiner = Refiner(problem())
    text = "program scaled(a: f16[64, 64]) {\n    y = map a -> acc * 2.0\n    return y\n}\n"
    assert refiner.next(State((Finished(1, text, "f16", "cute", ms=1.0),))) is None


def test_a_refinement_that_is_faster_is_refined_next_and_none_is_tried_twice():
    refiner, trials = Refiner(problem()), [Finished(1, PROGRAM, "f16", "cute", ms=9.0)]
    for number in range(2, 40):
        verb = refiner.next(State(tuple(trials), 40))
        if verb is None:
            break
        assert verb.text not in {t.text for t in trials} and check(verb.text).ok
        assert verb.parent == min(trials, key=lambda t: t.ms).number
        trials.append(Finished(number, verb.text, "f16", verb.backend, ms=8.0 if number == 4 else 10.0))
    assert len(trials) > 8 and "next of the model's ranking" in verb.why


def test_nvcc_builds_few_refinements_on_a_device_that_measures():
    measured = problem()
    measured.device_kind = "measured"
    refiner, built, trials = Refiner(measured), 0.0, [Finished(1, PROGRAM, "f16", "cpp", ms=9.0)]
    while (verb := refiner.next(State(tuple(trials), 40), built)) is not None:
        built += refiner.cost(verb)
        trials.append(Finished(len(trials) + 1, verb.text, "f16", "cpp", ms=10.0))
    assert verb is None and 1 < len(trials) <= 1 + CPP_TRIALS and built == CPP_TRIALS


def test_a_candidate_that_was_tried_is_asked_for_again():
    prompts, first = [], []

    def handler(ask, turn):
        prompts.append(ask.prompt)
        first.append(Player().reply(prompts[0]))
        return Reply(first[0])

    log, _ = play("flat", handler, trials=2)
    assert "This is trial 1 again" in prompts[2]
    assert len(prompts) == 1 + 3 and len(of(log, events.TrialProposed)) == 2


def test_the_record_of_mucutlass_shows_each_phase():
    log, _ = play("mucutlass", rehearsed(), trials=8)
    topics = [e.topic for e in of(log, events.Shown)]
    assert topics[:4] == ["phase", "triage", "hypothesis", "hypothesis"] and "lessons" in topics
    assert [e.role for e in of(log, events.Asked)][:3] == ["analyze", "nominate", "implement"]
    (table, *_) = [e.facts for e in of(log, events.Shown) if e.topic == "triage"]
    assert table["exponent"] >= 1 and sum(row["chosen"] for row in table["rows"]) == 2
    assert [row["roi"] for row in table["rows"]] == sorted((row["roi"] for row in table["rows"]), reverse=True)
    assert {row["estimated_by"] for row in table["rows"]} == {"model"}


@pytest.mark.parametrize("off", ["analyze", "nominate", "summarize"])
def test_each_phase_can_be_switched_off(off):
    log, _ = play("mucutlass", rehearsed(), trials=5, options={off: False})
    assert {e.role for e in of(log, events.Asked) if e.verb == "ask"} == {
        "analyze",
        "nominate",
        "implement",
        "summarize",
    } - {off}


def test_in_prompt_has_one_role_and_the_report():
    prompts = []
    player = Player()

    def handler(ask, turn):
        prompts.append(ask.prompt)
        return Reply(player.reply(ask.prompt))

    log, _ = play("mucutlass", handler, trials=3, options={"steering": "in_prompt"})
    assert {e.role for e in of(log, events.Asked) if e.verb == "ask"} == {"implement"}
    assert all("# The speed-of-light report" in p for p in prompts)


# ---- triage and memory ----


def idea(action, speedup, implementation=1.0, performance=1.0):
    return Idea(title=action, action=action, speedup=speedup, implementation=implementation, performance=performance)


def test_far_from_the_limit_bold_ideas_win_and_near_it_safe_ones():
    bold, safe = idea("split_k", 3.0, 3.0, 2.0), idea("tile", 1.3)
    assert phases.triage([safe, bold], 500.0, Memory())[0].idea is bold
    assert phases.triage([bold, safe], 1.5, Memory())[0].idea is safe


def test_past_trials_raise_a_risk_and_the_table_says_who_estimated_it():
    past = Memory([Outcome("tile", 1.3, None)] * 6)
    (ranked,) = phases.triage([idea("tile", 1.3)], 2.0, past)
    assert ranked.implementation > 1.2 and ranked.estimated_by == "model and 6 past trials"


def test_no_words_of_a_session_enter_the_memory_of_others():
    assert action_of("secret words of a visitor") == "other"
    lines = lines_of([Outcome("tile", 1.3, 1.1, "", "f16"), Outcome("secret", 1.0, None)])
    assert [o.action for o in parsed(lines).outcomes] == ["tile"]
