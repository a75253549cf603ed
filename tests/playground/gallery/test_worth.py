"""The gallery begins with recordings worth seeing; each sentence is true of its recording's log."""

import re

import pytest

from engine.session import recording
from engine.session.fold.reduce import View, fold
from playground import recordings
from playground.gallery import worth
from playground.models import Session

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


TRUE_OF = {
    "kernels_by_hand.jsonl": hand_written, "linear_div_gelu.jsonl": both_rules, "matmul_square.jsonl": pytorch_wins,
    "agent_residual.jsonl": each_faster, "agent_scores.jsonl": two_wrong, "mlp_gelu.jsonl": one_class_ahead,
}  # fmt: skip


def test_each_sentence_has_a_check_of_its_truth():
    assert set(TRUE_OF) == set(worth.reasons())


@pytest.mark.parametrize("name", worth.reasons())
def test_a_sentence_is_short_and_true_of_its_log(name):
    why = worth.reasons()[name]
    view = fold(recording.read(recordings.FOLDER / name).rows)
    assert TRUE_OF[name](view)
    numbers = re.sub(r"TF32|float16", "", why)
    assert why.endswith(".") and why.count(".") == 1 and len(why) < 200 and not re.search(r"\d", numbers)


def test_a_card_has_the_numbers_of_its_recording(client):
    recordings.load_all()
    cards = {card.id: card for card in worth.cards(Session.objects.filter(recorded=True))}
    assert [Session.objects.get(id=name).provenance["file"] for name in cards] == list(worth.reasons())
    by_file = {Session.objects.get(id=name).provenance["file"]: card for name, card in cards.items()}
    agent, plain = by_file["agent_residual.jsonl"], by_file["matmul_square.jsonl"]
    assert (agent.kind, agent.speedup) == ("predicted", "3.24×")
    assert agent.against == "over PyTorch eager (float16) · float16 · 83.8\u00a0µs"
    assert plain.kind == "measured" and plain.speedup == "" and "No program was faster" in plain.against
    page = client.get("/gallery").content.decode()
    assert page.index("Worth seeing first") < page.index("The benchmark suite") < page.index("Recorded sessions")
    for card in cards.values():
        assert f'href="/s/{card.id}"' in page and card.speedup in page


def test_without_recordings_nothing_is_announced(client):
    page = client.get("/gallery").content.decode()
    assert "Worth seeing first" not in page and "No recordings here yet" in page
