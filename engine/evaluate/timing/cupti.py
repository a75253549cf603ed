"""The GPU's work during a call, as CUPTI recorded it: every kernel, copy and fill, on every stream.

Events (engine.evaluate.timing.samples) time one stream; this records all of them, and the names of the kernels. A
recorded call is slower on the host, not on the device. CUPTI's own library is read (cupti_activity); where that fails,
PyTorch's profiler, which reaches it in every PyTorch with CUDA. Needs torch and CUDA; only for worker processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from engine.evaluate.timing import cupti_activity

HOLD = "spin_kernel"  # of torch.cuda._sleep
MOST = 400  # kernels reported for one call
# Names of kernels of NVIDIA's libraries and of PyTorch.
LIBRARY = re.compile(
    r"cublas|cudnn|nvjet|cusparse|cufft|magma|xmma|s\d+_gemm|gemm_\w+_\w+_(nn|nt|tn|tt)|gemvx|gemv2|splitKreduce"
    r"|at::|cutlass.*Kernel2|ampere_|volta_|turing_|hopper_|implicit_convolve|Memcpy|Memset|flash_fwd|pytorch_flash"
    r"|(?:LSTM|GRU|RNN)_(?:elementWise|\w*Persist)",
    re.IGNORECASE,
)
PRODUCT = re.compile(
    r"gemm|cublas|nvjet|xmma|cudnn|conv|cutlass.*Kernel2|flash|gemv|implicit_convolve|splitKreduce|wgrad|dgrad",
    re.IGNORECASE,
)


def record(call: Callable[[], object]) -> list[dict]:
    """[{name, start_us, us, stream, library}] of the device's work during `call`, in order of its start."""
    import torch

    try:
        seen = cupti_activity.record(call, torch.cuda.synchronize)
    except cupti_activity.Missing:
        return _profiled(call)
    return [_record(a.name, a.start, a.end - a.start, a.stream) for a in seen if a.end > a.start]


def _profiled(call: Callable[[], object]) -> list[dict]:
    """The same by PyTorch's profiler, whose first use in a process takes seconds."""
    import torch

    cuda = torch.profiler.ProfilerActivity.CUDA
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[cuda, torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
        torch.cuda.synchronize()
    records = [
        _record(str(e.name()), e.start_ns(), e.duration_ns(), int(e.device_resource_id()))
        for e in profile.profiler.kineto_results.events()
        if e.device_type() == torch.autograd.DeviceType.CUDA and e.duration_ns() > 0
    ]
    return sorted(records, key=lambda k: k["start_us"])


def _record(name: str, start_ns: int, ns: int, stream: int) -> dict:
    return {
        "name": name[:160], "start_us": start_ns / 1e3, "us": ns / 1e3, "stream": stream,
        "library": bool(LIBRARY.search(name)),
    }  # fmt: skip


def kernels(call: Callable[[], object]) -> list[dict]:
    """`record` of a second call (the first may load code), at most MOST."""
    call()
    return record(call)[:MOST]


def beside_libraries(kernels: list[dict]) -> list[dict]:
    """Without streams of which a library has all kernels, the first one apart. cuDNN's networks run their directions on
    streams of their own and join them again, so that captured calls overlap more than one call under CUPTI does."""
    first = min(kernels, key=lambda k: k["start_us"])["stream"] if kernels else None
    counted = {first} | {k["stream"] for k in kernels if not k["library"]}
    return [k for k in kernels if k["stream"] in counted]


def busy_us(kernels: list[dict]) -> float:
    """Microseconds in which at least one of these ran, on any stream."""
    total, end = 0.0, float("-inf")
    for k in sorted(kernels, key=lambda k: k["start_us"]):
        start, stop = k["start_us"], k["start_us"] + k["us"]
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def span_us(kernels: list[dict]) -> float:
    """Microseconds from the start of the first to the end of the last, as events around them measure."""
    if not kernels:
        return 0.0
    return max(k["start_us"] + k["us"] for k in kernels) - min(k["start_us"] for k in kernels)


def beside_events(call: Callable[[], object], timer: Any, repeats: int) -> list[tuple[float, float]]:
    """(milliseconds by CUDA events, milliseconds from the first kernel's start to the last one's end) of each of
    `repeats` calls: both clocks on the same calls, timed as `timer` (engine.evaluate.timing.samples.Timer) does."""
    flushed = [k["name"] for k in record(timer.flush)]
    events: list[float] = []

    def run() -> None:
        for _ in range(repeats):
            events.append(timer.sample(call))

    spans = [span_us(g) / 1e3 for g in groups(record(run), flushed) if g]
    # A call that was repeated behind a longer hold adds a group; the last groups are those that count.
    return list(zip(events, spans[-len(events) :], strict=False))


def groups(records: list[dict], flushed: list[str]) -> list[list[dict]]:
    """The kernels between the holds: after each flush (kernels named `flushed`) and the kernel that held the stream, up
    to the next flush."""
    calls: list[list[dict]] = []
    waiting: list[str] = []
    for k in records:
        if not waiting and k["name"] == flushed[0] and (not calls or calls[-1]):
            calls.append([])
            waiting = [*flushed[1:], HOLD]
        elif waiting and (k["name"] == waiting[0] or (waiting[0] == HOLD and HOLD in k["name"])):
            waiting.pop(0)
        elif calls and not waiting:
            calls[-1].append(k)
    return calls
