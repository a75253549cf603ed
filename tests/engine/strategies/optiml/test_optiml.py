"""OptiML plays whole sessions with the rehearsal: from a mixture, from what is given, and with parts switched off."""

import json

import pytest

from dsl.check.program import check
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Reply, Unsuitable
from engine.strategies.optiml import OptiML, OptimlOptions
from engine.strategies.optiml.mixture import ordered, shares
from engine.strategies.optiml.replies import Proposal
from engine.strategies.optiml.search import Search
from engine.strategies.state import Finished, State
from engine.strategies.writing import Writer
from tests.engine.session.scripted import KernelDevice, NoGpu, Searching, of, problem

MOST_FACTS = 6_000  # characters of one event


def rehearsed(skill=1.0):
    player = Player(skill)
    return lambda ask, turn: Reply(player.reply(ask.prompt), model="rehearsed")


def play(handler=None, trials=8, seed=0, **options):
    strategy = OptiML(OptimlOptions(**options))
    searching = Searching(strategy, handlers={"ask": handler or rehearsed()}, trials=trials, seed=seed)
    return searching.run(), searching


def shown(log, topic):
    return [e.facts for e in of(log, events.Shown) if e.topic == topic]


def asked(log):
    return [e.role for e in of(log, events.Asked) if e.verb == "ask"]


@pytest.fixture(scope="module")
def log():
    return play(rehearsed(0.6), trials=26)[0]


def test_the_record_has_every_part_that_the_study_describes(log):
    assert list(dict.fromkeys(asked(log))) == ["propose", "generate", "judge", "edit"]
    (first, *_), nodes = shown(log, "mixture"), shown(log, "node")
    assert [r["chosen"] for r in first["rows"]].count(True) == 1 and "seed" in first["why"]
    assert sum(r["weight"] for r in first["rows"]) == pytest.approx(1, abs=1e-3)
    assert [n["node"] for n in nodes] == list(range(len(nodes))) and nodes[0]["parent"] is None
    for n in nodes[1:]:
        assert nodes[n["parent"]]["trial"] == n["edits"] and nodes[n["parent"]]["depth"] == n["depth"] - 1
        assert n["diagnosis"]["evidence"] or n["diagnosis"]["missing"]
    assert {r["kind"] for r in shown(log, "guardrail")} >= {"wrong", "slower"}
    assert all(r["reason"] for r in shown(log, "guardrail")) and shown(log, "path")[-1]["rows"][0]["node"] == 0
    assert all(len(json.dumps(e.facts)) < MOST_FACTS for e in of(log, events.Shown))


def test_the_incumbent_is_always_the_fastest_right_candidate_so_far(log):
    judged, best = {e.trial: e for e in of(log, events.TrialJudged)}, None
    for n in shown(log, "node"):
        trial = judged.get(n["trial"])
        if trial is not None and trial.verdict == "clean" and (best is None or trial.ms < judged[best].ms):
            best = n["trial"]
        assert n["incumbent"] == best
        assert (n["ruling"] == "accepted") == (n["trial"] == best)
        assert n["ruling"] not in ("wrong", "flagged") or n["reward"] == 0


def test_the_statistics_in_the_log_follow_from_its_rewards(log):
    nodes, statistics = {}, {}
    for n in shown(log, "node"):
        nodes[n["node"]] = n
        statistics |= {number: (visits, value) for number, visits, value in n["path"]}
    above = {number: set() for number in nodes}
    for number in nodes:
        at = number
        while at is not None:
            above[at].add(number)
            at = nodes[at]["parent"]
    for number, (visits, value) in statistics.items():
        rewards = [nodes[n]["reward"] for n in above[number]]
        assert visits == len(rewards) and value == pytest.approx(sum(rewards) / len(rewards), abs=1e-3)


def test_twelve_evaluations_edit_edits_of_edits_and_the_log_holds_the_rules():
    log, _ = play(trials=12)
    (rules,) = shown(log, "rules")
    assert max(n["depth"] for n in shown(log, "node")) >= 3
    assert (rules["growth"], rules["base"], rules["levels"], rules["c"], rules["depth"]) == (3, 2, 3, 1.0, 8)
    assert rules["fitted"] < 0.1 and rules["evaluations"] == 13 - shown(log, "node")[0]["trial"]
    as_written, _ = play(trials=12, levels=1)
    assert shown(as_written, "rules")[0]["fitted"] == 3
    assert {n["depth"] for n in shown(as_written, "node")} == {0, 1}


def test_an_edit_is_written_from_its_node_and_the_judge_reads_the_profile():
    prompts = []
    answer = rehearsed()

    def handler(ask, turn):
        prompts.append((ask.role, ask.prompt))
        return answer(ask, turn)

    log, searching = play(handler, trials=4)
    judge = next(p for role, p in prompts if role == "judge")
    assert "# Profile of trial 1" in judge and "bound by" in judge
    edits = [p for role, p in prompts if role == "edit"]
    for e, prompt in zip(of(log, events.TrialProposed)[1:], edits, strict=True):
        assert f"# The candidate to edit: trial {e.parent} " in prompt
        assert "# The diagnosis of trial" in prompt
    assert prompts.count(prompts[1]) == 1 and check(searching.blobs[of(log, events.TrialProposed)[0].program]).ok
    assert [role for role, _ in prompts].count("judge") == len({n["parent"] for n in shown(log, "node")[1:]})


def test_parts_can_be_switched_off():
    log, _ = play(trials=3, judge=False, profile=False)
    assert "judge" not in asked(log) and not [e for e in of(log, events.Asked) if e.verb == "profile"]
    assert {n["diagnosis"]["missing"] for n in shown(log, "node")[1:]} == {"the option judge is off"}


def test_the_same_seed_gives_the_same_session_and_the_budget_of_evaluations_holds():
    one, other = play(seed=3, evaluations=4), play(seed=3, evaluations=4)
    assert of(one[0], events.Shown) == of(other[0], events.Shown)
    assert len(of(one[0], events.TrialProposed)) == 4 and one[1].reason == "All of the 4 evaluations were used."
    assert one[1].code == "search_over"


def test_a_first_candidate_that_is_wrong_is_mended_once_then_the_next_strategy_has_its_turn():
    player, rounds = Player(), []

    def handler(ask, turn):
        text = player.reply(ask.prompt)
        if ask.role == "generate":
            rounds.append(ask.prompt)
            text = text if len(rounds) > 2 else text.replace("return", f"retrun{len(rounds)}")
        return Reply(text)

    log, _ = play(handler, trials=5)
    mixtures = shown(log, "mixture")
    chosen = [next(i for i, r in enumerate(m["rows"]) if r["chosen"]) for m in mixtures]
    assert chosen[0] == chosen[1] == chosen[2] != chosen[3] == chosen[4]
    assert [m["rows"][chosen[0]]["trials"] for m in mixtures] == [[], [1], [1, 2], [1, 2], [1, 2]]
    assert mixtures[4]["rows"][chosen[3]]["trials"] == [3] and mixtures[4]["why"] == mixtures[3]["why"]
    assert "Mend the last candidate" in rounds[1] and shown(log, "node")[0]["trial"] == 3


def test_the_record_names_the_trials_of_a_mixture_none_of_whose_candidates_is_right():
    player = Player()

    def handler(ask, turn):
        text = player.reply(ask.prompt)
        return Reply(text.replace("return", f"retrun{turn}") if ask.role == "generate" else text)

    log, searching = play(handler, trials=3)
    trials = [n for r in shown(log, "mixture")[-1]["rows"] for n in r["trials"]]
    assert sorted(trials) == [1, 2, 3] and not shown(log, "node"), searching.reason


def test_a_kernel_that_this_machine_cannot_run_ends_the_search_before_more_is_written():
    texts = iter(range(40))

    def handler(ask, turn):
        kernel = {"source": f"import cutlass  # {next(texts)}", "language": "python", "cls": "f16", "change": "c"}
        proposals = {"strategies": [{"title": "a", "weight": 2}, {"title": "b", "weight": 1}]}
        return Reply(json.dumps(proposals if ask.role == "propose" else kernel))

    searching = Searching(OptiML(OptimlOptions(form="kernel")), NoGpu(), handlers={"ask": handler}, trials=8)
    log = searching.run()
    assert len(of(log, events.TrialProposed)) == 1 and asked(log) == ["propose", "generate"]
    assert searching.reason.startswith("Trial 1 cannot run on this machine, and nor could another kernel: compiled")


def test_the_mixture_is_drawn_by_its_weights_or_the_heaviest_is_taken():
    import random

    weights = shares([Proposal(title="a", weight=1), Proposal(title="b", weight=3)])
    assert weights == [0.25, 0.75]
    assert ordered([0.2, 0.5, 0.3], random.Random(0), "best") == [1, 2, 0]
    firsts = [ordered(weights, random.Random(seed), "sampled")[0] for seed in range(200)]
    assert 25 < firsts.count(0) < 80
    assert ordered([], random.Random(0), "sampled") == []


def test_a_model_that_repeats_its_trials_ends_the_search():
    player, first = Player(), {}

    def handler(ask, turn):
        return Reply(first.setdefault(ask.role, player.reply(ask.prompt)))

    log, searching = play(handler, trials=8)
    assert searching.reason in ("The last 3 edits of the model repeat earlier trials.",
                                "The search tree has no node left to edit.")  # fmt: skip
    assert {r["kind"] for r in shown(log, "guardrail")} >= {"repeated"}
    programs = [e.program for e in of(log, events.TrialProposed)]
    assert len(programs) == len(set(programs)) < 8


# ---- only optimise ----


def test_a_pasted_program_is_the_root():
    log, _ = play(trials=3, start="given")
    assert "propose" not in asked(log) and "generate" not in asked(log)
    (mixture,) = shown(log, "mixture")
    assert mixture["rows"] == [] and "starts from trial 1" in mixture["why"]
    assert of(log, events.TrialProposed)[0].change == "the given program"


KERNEL = "import torch\n\n\nclass ModelNew(Model):\n    pass  # passes, because its hash does\n"


def of_a_kernel(**options):
    """A session that starts from the owner's kernel; each edit is one more comment."""
    number = iter(range(100))

    def handler(ask, turn):
        if ask.role == "opinion":
            return Reply(json.dumps({"verdict": "No issue", "reason": "it computes all of it"}))
        if ask.role == "judge":
            return Reply(json.dumps({"limit": "memory", "evidence": ["few bytes"], "advice": "read less"}))
        source = f"{KERNEL}# edit {next(number)}\n"
        return Reply(json.dumps({"source": source, "language": "python", "cls": "f16", "change": "an edit"}))

    first = [{"program": KERNEL, "form": "kernel", "language": "python", "cls": "f16"}]
    commands = iter([[("try", one) for one in first]])
    strategy = OptiML(OptimlOptions(start="given", **options))
    searching = Searching(
        strategy, KernelDevice(), handlers={"ask": handler}, trials=4, control=lambda: next(commands, [])
    )
    return searching.run()


def test_the_owner_s_kernel_is_the_root_and_kernels_are_written_from_it():
    log = of_a_kernel()
    proposed = of(log, events.TrialProposed)
    assert proposed[0].by == "owner" and {e.form for e in proposed} == {"kernel"} and proposed[1].parent == 1
    root, *edits = shown(log, "node")
    assert root["trial"] == 1 and root["ruling"] == "accepted" and len(edits) == 4
    assert all(set(n["unknown"]) >= {"memory", "compute", "occupancy"} for n in edits if n["ruling"] != "wrong")


def test_with_the_option_each_right_edit_gets_an_opinion():
    log = of_a_kernel(opinion=True)
    right = [n["trial"] for n in shown(log, "node")[1:] if n["ruling"] != "wrong"]
    assert right and [f["trial"] for f in shown(log, "opinion")] == right and not shown(of_a_kernel(), "opinion")


def test_without_anything_given_the_session_is_refused():
    prepared = problem()
    prepared.task = type(prepared.task)("a module", "module", prepared.task.graph)
    script = Search(Writer(prepared), OptimlOptions(start="given")).run()
    with pytest.raises(Unsuitable, match="Paste a kernel"):
        next(script)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"failed": "validate", "reason": "wrong by 5%"}, "Trial 1 failed at validate: wrong by 5%. Mend it"),
        (
            {"untimed": True, "clean": False, "verdict": "unverified", "code": "no_compiler", "reason": "no nvcc here"},
            "Trial 1 cannot be verified on this machine: no nvcc here. Start the session where it can run",
        ),
    ],
)
def test_a_kernel_that_is_not_right_is_named_instead_of_asked_for_again(outcome, words):
    prepared = problem()
    prepared.task = type(prepared.task)("a module", "module", prepared.task.graph)
    own = Finished(1, "wrong", "f16", by="owner", form="kernel", **outcome)
    prepared.start = State(trials=[own])
    script = Search(Writer(prepared), OptimlOptions(start="given")).run()
    with pytest.raises(Unsuitable) as refused:
        next(script)
    assert str(refused.value.reason) == (
        f'The search cannot start from the kernel that was given. {words}, or choose the start "words".'
    )
