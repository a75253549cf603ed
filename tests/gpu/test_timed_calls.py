"""The calls of a batch run one after the other, and what a call leaves running on a stream of its own is no graph."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate import shared_memory  # noqa: E402
from engine.evaluate.cuda_driver import Chain  # noqa: E402
from engine.evaluate.shared_memory import HostBlock  # noqa: E402
from engine.evaluate.timing.outside.plan import PAGE, Page, Plan  # noqa: E402
from engine.evaluate.timing.outside.runner import Runner  # noqa: E402
from tests.engine.graphs import linear  # noqa: E402

GRAPH = linear(rows=64, k=32, n=16)
DRAWN = [*GRAPH.inputs, *(t.name for t in GRAPH.tensors.values() if t.kind == "parameter")]


@pytest.fixture
def runner(cuda):
    plan = Plan.of(GRAPH, DRAWN, 4)
    return Runner(shared_memory.create(plan.size, "cuda"), Page(HostBlock.new(PAGE).map), plan, "cuda")


def captured(what):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        what()
    return graph


def test_graphs_of_a_chain_run_in_order_each_time(cuda):
    x = torch.ones(1, device="cuda")
    graphs = [captured(lambda: x.add_(1)), captured(lambda: x.mul_(3)), captured(lambda: x.sub_(2))]
    x.fill_(1)
    chain = Chain([graph.raw_cuda_graph() for graph in graphs])
    for _ in range(2):
        chain.launch()
    torch.cuda.synchronize()
    chain.close()
    assert x.item() == ((1 + 1) * 3 - 2 + 1) * 3 - 2


def test_calls_are_a_chain_with_results_of_their_own(runner):
    values = [{n: x.normal_() for n, x in runner.inputs(at).items()} for at in range(4)]

    def call(at, slots):
        x, w, *rest = runner.inputs(at).values()
        return [torch.nn.functional.linear(x, w, *rest)]

    opened = runner.open(call, 4)
    assert opened["mode"] == "graph", opened["why"]
    runner._run()
    torch.cuda.synchronize()
    for at, offsets in enumerate(opened["results"]):
        x, w, *rest = values[at].values()
        slot = runner.plan.outputs[0]
        result = runner.block.bytes()[offsets[0] :][: slot.bytes].view(x.dtype).view(slot.shape)
        assert torch.allclose(result, torch.nn.functional.linear(x, w, *rest))
    runner.close()


def test_work_that_is_joined_in_the_next_call_is_no_graph(runner):
    own, last = torch.cuda.Stream(), []

    def call(at, slots):
        main = torch.cuda.current_stream()
        if last:
            main.wait_event(last.pop())
        own.wait_stream(main)
        with torch.cuda.stream(own):
            x, w, *rest = runner.inputs(at).values()
            y = torch.nn.functional.linear(x, w, *rest)
            last.append(torch.cuda.Event())
            last[0].record(own)
        return [y]

    opened = runner.open(call, 4)
    assert opened["mode"] == "calls" and "apture" in opened["why"], opened
    last.clear()  # events of the broken capture
    runner._run()
    torch.cuda.synchronize()
    runner.close()
    torch.cuda.empty_cache()  # fails if PyTorch's allocator takes the capture for one that goes on
