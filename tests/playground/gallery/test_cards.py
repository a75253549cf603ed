"""The gallery begins with recordings worth seeing; each sentence is true of its recording's log."""

import re

import pytest

from engine.session import recording
from engine.session.fold.reduce import View, fold
from playground import recordings
from playground.gallery import cards
from playground.models import Session
from playground.sharing import cards as sharing

pytestmark = pytest.mark.django_db


def hand_written(view: View) -> bool:
    by_owner = [t for t in view.trials.values() if t.by == "owner"]
    judged = [t.judged.verdict for t in by_owner if t.judged]
    cheats = [t.untimed.verdict for t in by_owner if t.untimed]
    return judged == ["clean", "clean", "library only"] and cheats == ["gaming", "gaming"] and len(view.trials) == 6


def both_rules(view: View) -> bool:
    return "tf32: within 25% of the limit" in view.end.reason and "f16: 6 trials in a row" in view.end.reason


def pytorch_wins(view: View) -> bool:
    return view.headline is None and all(t.judged.speedup < 1 for t in view.trials.values())


def each_faster(view: View) -> bool:
    speedups = [t.judged.speedup for t in view.trials.values()]
    return view.strategy == "agent" and speedups == sorted(set(speedups)) and all(t.program for t in view.proposed)


def two_wrong(view: View) -> bool:
    failed = [t.failed for t in view.trials.values() if t.failed]
    clear = all(f.code == "wrong_result" and "f16 allows" in f.reason and "inputs" in f.reason for f in failed)
    return view.strategy == "agent" and len(failed) == 2 and clear


def one_class_ahead(view: View) -> bool:
    by_class = {cls: view.trials[n].judged.speedup for cls, n in view.fastest.items()}
    return 1 < by_class["f16"] < 1.05 and by_class["tf32"] < 0.85


def topics(name: str) -> list[tuple[str, dict]]:
    """What the script of a recording showed."""
    rows = recording.read(recordings.FOLDER / name).rows
    return [(row.data["topic"], row.data["facts"]) for row in rows if row.kind == "script.shown"]


def turns_of(name: str) -> list[recording.Row]:
    """The answered turns of a recording; a profile is a turn of no model."""
    return [row for row in recording.read(recordings.FOLDER / name).rows if row.kind == "turn.answered"]


def rehearsed(view: View, strategy: str) -> bool:
    rows = recording.read(recordings.FOLDER / f"rehearsed_{strategy}.jsonl").rows
    models = {row.data["model"] for row in rows if row.kind == "turn.answered"}  # a profile comes from no model
    return view.strategy == strategy and models - {""} == {"rehearsed"}


def mended(view: View, step: str) -> bool:
    """Whether each trial that failed at a step has a later one that changed it and was judged."""
    trials = view.trials.values()
    failed = [t.number for t in trials if t.failed and t.failed.step == step]
    return bool(failed) and all(any(t.parent == n and t.judged for t in trials) for n in failed)


def template_then_search(view: View) -> bool:
    shown = topics("rehearsed_two_stage.jsonl")
    (first, template), effects = shown[0], dict(shown)["effects"]["effects"]
    searched = [facts["trial"] for topic, facts in shown if topic == "search"]
    limits = dict(shown)["space"]["limits"]
    order = first == "template" and template["right"] and template["trial"] < min(searched)
    return rehearsed(view, "two_stage") and order and bool(limits) and all(len(e["values"]) for e in effects)


def triage_then_lessons(view: View) -> bool:
    shown = topics("rehearsed_mucutlass.jsonl")
    ideas = [facts for topic, facts in shown if topic == "hypothesis"]
    triaged = [facts["by_roi"] for topic, facts in shown if topic == "triage"]
    against = all(facts["expected"] and facts["observed"] for facts in ideas)
    lessons = "lessons" in dict(shown) and any(t.failed and t.failed.step == "check" for t in view.trials.values())
    return rehearsed(view, "mucutlass") and all(triaged) and len(ideas) > 2 and against and lessons


def tree_with_rejections(view: View) -> bool:
    shown = topics("rehearsed_optiml.jsonl")
    edits = [facts for topic, facts in shown if topic == "node" and facts["edits"]]
    rejected = {facts["kind"] for topic, facts in shown if topic == "guardrail"}
    right = {n for n, t in view.trials.items() if t.judged}
    parts = all(e["diagnosis"]["limit"] and bool(e["parts"]) == (e["trial"] in right) for e in edits)
    deep = any(t.parent and view.trials[t.parent].parent for t in view.trials.values())
    counted = any(turn.data["model"] == "" for turn in turns_of("rehearsed_optiml.jsonl"))
    return rehearsed(view, "optiml") and len(edits) > 5 and parts and deep and counted and rejected == {"slower"}


def from_a_pasted_kernel(view: View) -> bool:
    first, *edits = view.trials.values()
    models = {turn.data["model"] for turn in turns_of("rehearsed_optimise_only.jsonl")} - {""}
    pasted = first.by == "owner" and first.language == "python" and first.form == "kernel"
    return models == {"rehearsed"} and pasted and any(t.judged and t.judged.ms < first.judged.ms for t in edits)


def from_words(view: View) -> bool:
    models = {turn.data["model"] for turn in turns_of("row_softmax.jsonl")} - {""}
    mixture = dict(topics("row_softmax.jsonl"))["mixture"]
    wish = view.title == "row softmax of a 4096 x 8192 half matrix"
    return models == {"rehearsed"} and wish and bool(mixture["rows"]) and view.trials[1].judged.speedup > 1


def block_in_regions(view: View) -> bool:
    regions = {t.part_of for t in view.trials.values()}
    covered = [
        row.data for row in recording.read(recordings.FOLDER / "decoder_block.jsonl").rows if row.kind == "covered"
    ]
    return regions == {1, 2, 3} and len(covered[0]["regions"]) == 3 and view.headline is not None


def one_kernel_evolves(view: View) -> bool:
    shown = topics("rehearsed_cutegen.jsonl")
    seen = [facts["depth"] for topic, facts in shown if topic == "profile_revealed"]
    started = [facts for topic, facts in shown if topic == "depth" and facts["state"] == "started" and facts["base_ms"]]
    late = min(seen) == dict(shown)["workload"]["reveal"] > 1
    slower = any(f["base_ms"] > f["best_ms"] for f in started)
    return rehearsed(view, "cutegen") and len(started) > 3 and late and slower and mended(view, "check")


def transposed_in_one(view: View) -> bool:
    blobs = recording.read(recordings.FOLDER / "conv_transpose2d_clamp.jsonl").blobs
    best = blobs[view.trials[view.fastest["tf32"]].program]
    measured = [t.judged for t in view.trials.values()]
    fast = all(j.kind == "measured" and j.speedup > 3 for j in measured) and view.headline is not None
    return fast and all(name in best for name in ("conv_transpose2d", "clamp"))


def halves_in_place(view: View) -> bool:
    log = recording.read(recordings.FOLDER / "silu_and_mul.jsonl")
    (text,) = (b for b in log.blobs.values() if b.startswith("program "))
    covered = [row for row in log.rows if row.kind == "covered"]
    return text.count("= ") == 1 and "crop" in text and "x[m, n + " in text and not covered


def eight_bits_fastest(view: View) -> bool:
    by_class = {cls: view.trials[n] for cls, n in view.fastest.items()}
    fp8, bf16 = by_class["fp8"], by_class["bf16"]
    larger = fp8.validated["error"] > 10 * bf16.validated["error"] and fp8.validated["tolerance"] > 0.01
    return fp8.judged.speedup > bf16.judged.speedup and fp8.judged.kind == "measured" and larger


def guarded_is_fastest(view: View) -> bool:
    blobs = recording.read(recordings.FOLDER / "guarded_product.jsonl").blobs
    texts = {t.number: blobs[t.program] for t in view.trials.values()}
    best, others = texts[view.fastest["tf32"]], [text for text in texts.values() if "guard f32" not in text]
    return "guard f32" in best and "compute f16" in best and bool(others)


TRUE_OF = {
    "kernels_by_hand.jsonl": hand_written, "linear_div_gelu.jsonl": both_rules, "matmul_square.jsonl": pytorch_wins,
    "agent_residual.jsonl": each_faster, "agent_scores.jsonl": two_wrong, "mlp_gelu.jsonl": one_class_ahead,
    "rehearsed_two_stage.jsonl": template_then_search, "rehearsed_mucutlass.jsonl": triage_then_lessons,
    "conv_transpose2d_clamp.jsonl": transposed_in_one, "silu_and_mul.jsonl": halves_in_place,
    "linear_gelu_fp8.jsonl": eight_bits_fastest, "guarded_product.jsonl": guarded_is_fastest,
    "rehearsed_optimise_only.jsonl": from_a_pasted_kernel, "row_softmax.jsonl": from_words,
    "decoder_block.jsonl": block_in_regions,
    "rehearsed_optiml.jsonl": tree_with_rejections, "rehearsed_cutegen.jsonl": one_kernel_evolves,
}  # fmt: skip


def test_each_sentence_has_a_check_of_its_truth():
    assert set(TRUE_OF) == set(cards.reasons())


@pytest.mark.parametrize("name", cards.reasons())
def test_a_sentence_is_short_and_true_of_its_log(name):
    why = cards.reasons()[name]
    view = fold(recording.read(recordings.FOLDER / name).rows)
    assert TRUE_OF[name](view)
    numbers = re.sub(r"TF32|float16", "", why)
    assert why.endswith(".") and why.count(".") == 1 and len(why) < 200 and not re.search(r"\d", numbers)


@pytest.fixture
def by_file():
    """{file: card} of every shipped recording."""
    recordings.load_all()
    return {s.provenance["file"]: cards.card(s) for s in Session.objects.filter(recorded=True)}


def test_what_is_worth_seeing_comes_first_in_the_order_of_its_list(client, by_file):
    recorded = list(Session.objects.filter(recorded=True))
    first = cards.worth(by_file.values(), recorded)
    assert [card.id for card in first] == [by_file[name].id for name in cards.reasons()]
    page = client.get("/gallery").content.decode()
    assert page.index("Worth seeing first") < page.index("The benchmark suite") < page.index("Recorded sessions")
    assert all(page.count(f'href="/s/{card.id}"') == 2 for card in first)


def test_a_card_has_the_numbers_of_its_recording(by_file):
    agent, measured = by_file["agent_residual.jsonl"], by_file["linear_div_gelu.jsonl"]
    assert (agent.kind, agent.speedup, agent.share) == ("predicted", "3.24×", 37)
    assert agent.against == "over PyTorch eager (float16) · float16 · 83.8\u00a0µs"
    assert ("Led by", "a coding agent over MCP") in agent.facts and ("Times", cards.PREDICTED) in agent.facts
    assert (measured.kind, measured.classes) == ("measured", ("f16", "tf32"))
    assert ("Driver", "580.159.04") in measured.facts and measured.command[0].endswith("optimize linear_div_gelu")
    assert "--trials 12" in measured.command and "gelu" in measured.searched


def test_a_recording_without_a_faster_program_says_what_came_closest(by_file):
    plain = by_file["matmul_square.jsonl"]
    assert plain.speedup == "" and plain.share is None and plain.kind == "measured"
    expected = "No program was faster than PyTorch. The fastest: 0.98× over PyTorch eager (float16) · float16"
    assert plain.against.startswith(expected)


def test_a_tiny_module_has_no_share_where_launches_hide_the_limit(by_file, client):
    session = Session.objects.get(id=by_file["linear_div_gelu.jsonl"].id)
    session.summary["best"] |= {"ms": 0.0042, "gap": 1750.0}
    session.save()
    card = cards.card(session)
    assert card.share is None and card.launches and not by_file["linear_div_gelu.jsonl"].launches
    assert "Bound by launches" in client.get("/gallery").content.decode()
    assert ", bound by launches; " in sharing.sentence(session) and "times" not in sharing.sentence(session)
    assert sharing.picture(session)[:4] == b"\x89PNG"


def test_a_title_that_says_nothing_is_not_repeated(by_file):
    assert by_file["agent_residual.jsonl"].about == "" and by_file["mlp_gelu.jsonl"].about.startswith("A transformer")


def test_without_recordings_nothing_is_announced(client):
    page = client.get("/gallery").content.decode()
    assert "Worth seeing first" not in page and "No recordings here yet" in page
