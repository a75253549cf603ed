"""On a GPU the judge and a candidate share one block, so that no values cross the host; here it lies in the host's."""

import pytest

pytest.importorskip("torch")

from engine.evaluate import shared_memory
from engine.evaluate.integrity import examiner
from engine.evaluate.integrity.process.candidate import Candidate, CandidateEnded
from engine.evaluate.integrity.process.judge import BLOCK
from engine.evaluate.integrity.process.judge_main import Judge
from engine.evaluate.integrity.verify import Verifier
from engine.evaluate.shared_tensors import Region, Slot
from tests.engine.integrity import zoo


@pytest.fixture
def shared(monkeypatch):
    """Blocks on the CPU, too. Yields how many candidates have got one."""
    shares, share = [], Candidate.share

    def counted(candidate, judge):
        share(candidate, judge)
        shares.append(candidate.shared)

    monkeypatch.setattr(examiner, "SHARES", ("cpu",))
    monkeypatch.setattr(Candidate, "share", counted)
    yield shares


def verified(animal):
    with Verifier(zoo.module(animal.module), local_user=True) as verifier:
        return verifier.verify(animal.text, animal.kind, animal.cls)


def animals(folder, *names):
    return [a for a in zoo.animals(folder) if a.path.stem in names]


@pytest.mark.parametrize(
    "animal",
    animals("cheats", "changes_its_input", "half_written", "fills_later", "cached_by_pointer", "columns_left_out"),
    ids=lambda a: a.path.stem,
)
def test_cheats_are_caught_in_a_block(animal, shared):
    report = verified(animal)
    assert shared == [True]
    assert not report.accepted and not animal.missing(report.codes), report.codes


def test_an_honest_kernel_is_right_in_a_block(shared):
    animal = zoo.animals("honest")[0]
    report = verified(animal)
    assert shared == [True]
    assert report.accepted, [f.sentence for f in report.findings]


# ---- where there is no block ----


class Refuses:
    """A judge without memory to share."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def ask(self, op, **arguments):
        self.asked.append(op)
        return self.answer

    def descriptor(self):
        return shared_memory.create(4096, "cpu").fd


def candidate(error=None):
    """The engine's side of a process that has no text yet, and that answers with `error`."""
    from engine.evaluate.integrity.process.candidate import Layout

    one = Candidate.__new__(Candidate)
    slots = {"x": Slot(0, (4,), "f32")}
    one.where, one.shared, one.device = Layout(slots, 16, {"y": Slot(0, (4,), "f32")}, 16), False, "cpu"

    class Box:
        class door:
            inside = 7
            give = staticmethod(lambda fd: None)

        region_fd = staticmethod(lambda name: 5)

    def ask(message, timeout):
        if error is not None:
            raise error
        return {}

    one.box, one._ask = Box, ask
    return one


def test_a_judge_without_memory_leaves_the_values_on_the_host():
    one, judge = candidate(), Refuses({"not_shared": "it is larger than 0 bytes"})
    one.share(judge)
    assert judge.asked == ["share"] and one.region("own")["path"].endswith("/fd/5")


def test_a_process_that_cannot_take_the_block_leaves_the_values_on_the_host():
    one, judge = candidate(CandidateEnded("not_shared", "no CUDA")), Refuses({})
    one.share(judge)
    assert judge.asked == ["share", "unshare"] and not one.shared


def test_a_process_that_is_lost_before_it_has_a_text_is_not_the_texts_fault():
    one, judge = candidate(CandidateEnded("time_limit", "did not end within 30 s", lost=True)), Refuses({})
    with pytest.raises(CandidateEnded) as e:
        one.share(judge)
    assert e.value.code == "slow_start"


def test_results_lie_behind_the_inputs():
    one, judge = candidate(), Refuses({})
    one.share(judge)
    own, result = Region.from_json(one.region("own")), Region.from_json(one.region("result"))
    assert own.path == result.path == BLOCK
    assert result.tensors["y"].offset == 256 >= own.tensors["x"].bytes


def test_the_judge_does_not_take_other_memory_for_a_block_that_it_lost():
    with pytest.raises(ValueError, match="lost"):
        Judge("cpu")._map(Region(BLOCK, 16, {}))


def test_the_judge_takes_no_correct_results_from_a_block():
    judge = Judge("cpu")
    judge.block = shared_memory.create(4096, "cpu")
    with pytest.raises(ValueError, match="a candidate can write"):
        judge._right({"reference": Region(BLOCK, 4096, {"y": Slot(0, (4,), "f64")}).to_json()})
