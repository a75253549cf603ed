"""What crosses the sandbox on a GPU: memory by a descriptor, graphs on it, and how fast copies through the host are.

    python -m engine.bench.studies.crossing --json crossing.json     # half a minute on one GPU

The outside clock (engine.evaluate.timing.outside) rests on it: the judge makes memory, a confined process maps it, runs
kernels and graphs on it, and the judge reads what they wrote.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import atomic_write

SIZE = 1 << 30  # bytes of the block that both processes map
LARGE = 16 << 30
CALLS = 20


def serve(message: dict) -> dict:
    """The confined process: map the block behind the descriptor in the door, and work on it."""
    import torch

    from engine.evaluate import shared_memory

    with shared_memory.door(message["door"]) as way:
        block = shared_memory.adopt(shared_memory.take(way), message["size"], "cuda")
    x = block.bytes().view(torch.float32)[: message["size"] // 4]
    first, second = x.chunk(2)
    first.fill_(3.0)
    graph = torch.cuda.CUDAGraph()
    torch.mul(first, 2.0, out=second)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        torch.mul(first, 2.0, out=second)
    second.zero_()
    graph.replay()
    own = torch.empty_like(first), torch.ones_like(second)
    rates = {"shared_TBps": _rate(first, second), "own_TBps": _rate(*own)}
    graph.replay()
    torch.cuda.synchronize()
    return {"ok": rates}


def _rate(source: Any, target: Any) -> float:
    """Terabytes a second of a kernel that reads one tensor and writes the other."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for at in range(CALLS + 3):
        if at == 3:
            begin.record()
        torch.mul(source, 2.0, out=target)
    end.record()
    torch.cuda.synchronize()
    return CALLS * 2 * source.numel() * source.element_size() / (begin.elapsed_time(end) * 1e-3) / 1e12


def _across() -> dict[str, Any]:
    """The judge's side: what the confined process saw, and what it left in the block."""
    import torch

    from engine import sandbox
    from engine.evaluate import shared_memory

    block = shared_memory.create(SIZE, "cuda")
    box = sandbox.take(gpu=True, local_user=True, preload=("torch",))
    try:
        box.door.give(block.fd)
        message = {"entry": "engine.bench.studies.crossing", "door": box.door.inside, "size": SIZE}
        answer = box.request(message, timeout=60)
    finally:
        box.close()
    halves = block.bytes().view(torch.float32)[: SIZE // 4].chunk(2)
    return {**answer.get("ok", answer), "read_by_the_judge": [float(h[-1]) for h in halves], "wanted": [3.0, 6.0]}


def _timed(work: Callable[[], Any]) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def _host() -> dict[str, float]:
    """Copies through the host, and making memory."""
    import torch

    from engine.evaluate import shared_memory

    on_gpu = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    fd = os.memfd_create("crossing")
    os.ftruncate(fd, SIZE)
    on_host = torch.frombuffer(mmap.mmap(fd, SIZE), dtype=torch.uint8)
    os.close(fd)
    seen = {
        "first_copy_to_the_host_s": _timed(lambda: on_host.copy_(on_gpu)),
        "copy_to_the_host_GBps": SIZE / 1e9 / _timed(lambda: on_host.copy_(on_gpu)),
        "copy_to_the_gpu_GBps": SIZE / 1e9 / _timed(lambda: on_gpu.copy_(on_host)),
        "register_s": _timed(lambda: torch.cuda.cudart().cudaHostRegister(on_host.data_ptr(), SIZE, 0)),
        "registered_to_the_host_GBps": SIZE / 1e9 / _timed(lambda: on_host.copy_(on_gpu)),
        "registered_to_the_gpu_GBps": SIZE / 1e9 / _timed(lambda: on_gpu.copy_(on_host)),
    }
    blocks: list[Any] = []
    seen["create_16GiB_s"] = _timed(lambda: blocks.append(shared_memory.create(LARGE, "cuda")))
    blocks[0].shared()
    seen["free_16GiB_s"] = _timed(blocks.clear)
    return seen


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.crossing", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--json", metavar="OUT", help="the numbers")
    args = parser.parse_args(argv)
    if not Path("/dev/nvidiactl").exists():
        print("error: there is no NVIDIA GPU here", file=sys.stderr)
        return 2
    from engine.evaluate.timing import gpu_condition
    from engine.sandbox import Sandbox

    about = gpu_condition.about("python -m engine.bench.studies.crossing --json crossing.json", gpu_condition.read())
    results = {**about, "sandbox": Sandbox.strength(gpu=True), "across": _across(), "host": _host()}
    print(results)
    if args.json:
        atomic_write.write_results(Path(args.json), results)
    across = results["across"]
    return 0 if across["read_by_the_judge"] == across["wanted"] else 1


if __name__ == "__main__":
    sys.exit(main())
