"""Results of gigabytes are checked in blocks, and too little memory has one clear outcome."""

import pytest
import torch

from engine.devices import TrialError
from engine.evaluate.candidate import guarded_outputs
from engine.evaluate.candidate.faults import Wrong, answered
from engine.evaluate.candidate.guarded_outputs import Mark, same_bits, unwritten
from engine.evaluate.candidate.worker_main import Worker
from engine.evaluate.correctness import tolerance
from engine.evaluate.correctness.gpu_rounds import GpuRounds
from engine.evaluate.correctness.tolerance import Comparing, compare
from engine.evaluate.integrity.process import judge_main
from tests.engine.graphs import Builder
from tests.engine.memory import Peak

SHAPE = (64, 1 << 14)
SIZE = 4 << 20  # bytes of one tensor of SHAPE
DOUBLES = "import torch\n\ndef load(artifact=None):\n    def run(inputs, outputs):\n        {}\n    return run\n"
RIGHT = DOUBLES.format("torch.mul(inputs[0], 2.0, out=outputs[0])")


@pytest.fixture
def small(monkeypatch):
    """What counts as gigabytes is small here."""
    monkeypatch.setattr(guarded_outputs, "BLOCK", 1 << 12)
    monkeypatch.setattr(guarded_outputs, "SUMMED", 1 << 12)
    monkeypatch.setattr(guarded_outputs, "COPIED", 1 << 14)
    monkeypatch.setattr(tolerance, "CHUNK", 1 << 12)


def worker(folder, text=RIGHT) -> Worker:
    """A process's worker, here, with a program that doubles a tensor of 4 MB."""
    g = Builder()
    graph = g.graph(g.op("mul", [g.input("x", SHAPE)], SHAPE, other=2.0))
    one = Worker("cpu")
    one.open({"graph": graph.to_json()})
    path = folder / "program.py"
    path.write_text(text)
    inputs = [{"name": "x", "tensor": "x", "shape": list(SHAPE)}]
    outputs = [{"name": "y", "tensor": "mul_0", "shape": list(SHAPE), "dtype": "f32"}]
    one.load({"slot": "main", "path": str(path), "inputs": inputs, "outputs": outputs})
    return one


def check(one: Worker, **more):
    x = one.values("normal", 5)["x"]
    one.references[("normal", 5)] = [x * 2.0]
    request = {"slot": "main", "family": "normal", "seed": 5, "reference": None, **more}
    return one.of_program("check")(request)


def test_a_right_program_is_right_however_large(tmp_path, small):
    reply = check(worker(tmp_path))
    assert reply["repeats"] and reply["results"][0]["error"] == 0.0
    assert reply["results"][0]["elements"] == SHAPE[0] * SHAPE[1]


def test_a_check_takes_one_more_copy_of_the_inputs_and_none_of_the_results(tmp_path, small):
    one = worker(tmp_path)
    x = one.values("normal", 5)["x"]
    one.references[("normal", 5)] = [x * 2.0]
    with Peak() as peak:
        one.of_program("check")({"slot": "main", "family": "normal", "seed": 5, "reference": None})
    assert peak.bytes <= 3.2 * SIZE, "its inputs, the program's copy of them, and its results"


CHANGES = DOUBLES.format(
    "run.n = getattr(run, 'n', 0) + 1\n        torch.mul(inputs[0], 2.0 + 1e-7 * run.n, out=outputs[0])"
)
WRITES = DOUBLES.format("torch.mul(inputs[0], 2.0, out=outputs[0])\n        inputs[0].view(-1)[-1] = 7.0")
HALF = DOUBLES.format("outputs[0][:32] = inputs[0][:32] * 2.0")


@pytest.mark.parametrize(
    ("text", "code"), [(CHANGES, "unsteady"), (WRITES, "input_written"), (HALF, "unwritten")], ids=str
)
def test_what_is_wrong_with_a_small_program_is_wrong_with_a_large_one(tmp_path, small, text, code):
    with pytest.raises(Wrong) as wrong:
        check(worker(tmp_path, text))
    assert wrong.value.code == code


def test_sums_of_bits_tell_places_and_values_apart(small):
    x = torch.randn(1 << 13)
    mark, other = Mark(x), x.clone()
    assert mark._copy is None and mark.of(x.clone())
    other[[0, -1]] = other[[-1, 0]]
    assert not mark.of(other), "two elements exchanged"
    other = x.clone()
    other[77] = -other[77]
    assert not mark.of(other) and not same_bits(x, other)
    assert not same_bits(x, x[:-1]) and same_bits(torch.tensor(float("nan")), torch.tensor(float("nan")))


def test_blocks_count_as_the_whole_does(small):
    g = guarded_outputs.Guarded((3, 5000), torch.float32, "cpu")
    g.poison()
    g.tensor[1] = 0.0
    assert unwritten(g.tensor) == g.unwritten() == 10_000


def test_pieces_are_compared_as_the_whole_is():
    a, b = torch.randn(8, 4000), torch.randn(8, 4000)
    b[3, 7], a[5, 5] = float("inf"), float("nan")
    pieces = Comparing()
    for row in range(8):
        pieces.add(a[row], b[row])
    whole = compare(a, b)
    assert vars(pieces.result()) == pytest.approx(vars(whole), rel=1e-12)


# ---- raw kernels ----


def judge(values):
    one = judge_main.Judge("cpu")
    g = Builder()
    x = g.input("x", tuple(values.shape))
    one.graph, one.values = g.graph(g.op("mul", [x], tuple(values.shape), other=2.0)), {"x": values}
    return one


@pytest.mark.parametrize("shape", [(64, 300), (5000,), (6, 4, 800)])
def test_a_judge_sees_the_same_in_blocks(shape, monkeypatch):
    torch.manual_seed(1)
    correct = torch.randn(shape, dtype=torch.float64)
    out = correct.float()
    out.view(shape[0], -1)[shape[0] // 2 :] *= 1.01
    whole = judge(correct.float()).compare(out, correct, 1e-4, "k")
    monkeypatch.setattr(tolerance, "CHUNK", 1 << 10)
    blocks = judge(correct.float()).compare(out, correct, 1e-4, "k")
    assert blocks["blocks"] == whole["blocks"] and blocks["print"] == whole["print"]
    assert blocks["trivial"] == pytest.approx(whole["trivial"]) and set(whole["trivial"]) == {"its input x"}
    for name in ("error", "max_error", "rms"):
        assert blocks[name] == pytest.approx(whole[name], rel=1e-9)


def test_a_judge_holds_little_beside_the_results(monkeypatch):
    monkeypatch.setattr(tolerance, "CHUNK", 1 << 12)
    monkeypatch.setattr(guarded_outputs, "BLOCK", 1 << 12)
    monkeypatch.setattr(guarded_outputs, "SUMMED", 1 << 12)
    correct = torch.randn(SHAPE)
    one, out = judge(correct), correct * 1.01
    with Peak() as peak:
        assert one.compare(out, correct, 1e-4, "k")["error"] > 0
    assert peak.bytes < SIZE / 4


# ---- too little memory ----


def test_a_refused_allocation_does_not_lose_the_process():
    def work(request):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB")

    answer = answered(work)({})
    assert answer == {
        "wrong": "out_of_memory",
        "message": "CUDA out of memory. Tried to allocate 16.00 GiB",
        "lost": False,
    }


class Full:
    """A module's process for which the GPU has too little memory."""

    def __init__(self):
        self.asked = 0
        self.problem = type("P", (), {"seed": 1})()
        self.reference, self.generation = self, 1

    def share_results(self):
        self.asked += 1
        raise TrialError("validate", "out_of_memory", "the GPU's memory is too small")


def test_a_reference_without_memory_is_not_computed_again_for_each_program():
    full = Full()
    rounds = GpuRounds(full)
    rounds.prepare(["f16"])
    for _ in range(3):
        with pytest.raises(TrialError, match="too small") as failed:
            rounds._reference(rounds.rounds[0], ["f16"])
        assert failed.value.code == "out_of_memory"
    assert full.asked == 1
    rounds.more_room()  # other sessions gave back theirs
    with pytest.raises(TrialError):
        rounds._reference(rounds.rounds[0], ["f16"])
    assert full.asked == 2
