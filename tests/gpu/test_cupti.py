"""CUPTI's own records are those that PyTorch's profiler shows: names, streams and times."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.timing import cupti  # noqa: E402


def work(x, y):
    torch.nn.functional.silu(x)
    y.copy_(x)
    y.zero_()
    x.cpu()


def test_both_ways_see_the_same_work(cuda):
    x = torch.randn(4096, 4096, device="cuda")
    y = torch.empty_like(x)
    work(x, y)
    ours, theirs = cupti.record(lambda: work(x, y)), cupti._profiled(lambda: work(x, y))
    assert [k["name"].partition("<")[0] for k in ours if "Mem" not in k["name"]] == [
        k["name"].partition("<")[0] for k in theirs if "Mem" not in k["name"]
    ]
    assert len(ours) == len(theirs) and {k["stream"] for k in ours} == {k["stream"] for k in theirs}
    assert [k["library"] for k in ours] == [k["library"] for k in theirs]
    assert cupti.busy_us(ours) == pytest.approx(cupti.busy_us(theirs), rel=0.2)


def test_kernels_of_a_graph_are_recorded_one_by_one(cuda):
    x = torch.zeros(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x.add_(1)
    graph.replay()
    assert len(cupti.record(graph.replay)) == 3
