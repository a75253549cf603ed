"""CUPTI's own records are those that PyTorch's profiler shows: names, streams and times."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.timing import cupti  # noqa: E402

pytestmark = pytest.mark.gpu

ROUNDS = 5


def work(x, y):
    torch.nn.functional.silu(x)
    y.copy_(x)
    y.zero_()
    x.cpu()


def tensors():
    x = torch.randn(4096, 4096, device="cuda")
    return x, torch.empty_like(x)


def test_both_ways_see_the_same_work(cuda):
    x, y = tensors()
    work(x, y)
    ours, theirs = cupti.record(lambda: work(x, y)), cupti._profiled(lambda: work(x, y))
    assert [k["name"].partition("<")[0] for k in ours if "Mem" not in k["name"]] == [
        k["name"].partition("<")[0] for k in theirs if "Mem" not in k["name"]
    ]
    assert len(ours) == len(theirs) and {k["stream"] for k in ours} == {k["stream"] for k in theirs}
    assert [k["library"] for k in ours] == [k["library"] for k in theirs]


def test_both_ways_give_the_device_s_work_the_same_times(cuda):
    """Of what the device does alone, at its fastest: the copy to the host waits for the host's memory and for other
    processes, so that two of them may differ by any factor, and a first kernel meets low clocks."""
    x, y = tensors()
    for _ in range(3):
        work(x, y)
    least: dict[str, list[float]] = {}
    for way in (cupti.record, cupti._profiled) * ROUNDS:
        records = way(lambda: work(x, y))
        assert max(k["us"] for k in records) <= cupti.busy_us(records) <= cupti.span_us(records) * (1 + 1e-9)
        alone = [k["us"] for k in records if "DtoH" not in k["name"]]
        so_far = least.setdefault(way.__name__, alone)
        assert len(alone) == len(so_far) == 3
        least[way.__name__] = list(map(min, so_far, alone))
    assert least["record"] == pytest.approx(least["_profiled"], rel=0.1)


def test_kernels_of_a_graph_are_recorded_one_by_one(cuda):
    x = torch.zeros(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x.add_(1)
    graph.replay()
    assert len(cupti.record(graph.replay)) == 3
