"""The process that Nsight Compute watches: it imports ahead of a request, then runs one program of the language.

    python -m engine.start engine.evaluate.profiling.launch_main FOLDER

FOLDER has the pipes `requests` and `replies` of JSON lines, which the engine holds open (launchers). In order:

    -> {pid}                                  at once; then the imports, which take seconds, and {imported: seconds}
    {program, path, artifact, device} ->      files: the program's text, its binding, the built library or null
    -> {ready: seconds}                       everything is loaded, and the GPU has run nothing
    {count: true} -> {counted: seconds}       the program ran twice, the second time marked for Nsight Compute

or {error: text}. Then the process ends, and Nsight Compute writes its report. It starts CUDA with the first request. It
also ends with the engine, whose end closes the pipe, and after IDLE seconds without a request. A program is data:
nothing of it runs here but the kernels that our back end wrote. Inputs are random, because their values do not change
what the kernels do.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import descriptors, start

if TYPE_CHECKING:
    import torch

    from dsl import ir

IDLE = 600.0  # seconds without a request
Run = Callable[[list, list], None]


def main() -> None:
    folder = Path(sys.argv[1])
    replies = os.open(folder / "replies", os.O_WRONLY | os.O_NONBLOCK)  # an error if the engine has ended
    requests = os.open(folder / "requests", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(requests, True)
    threading.Thread(target=_end_with_engine, args=(requests,), daemon=True).start()
    sys.exit(_serve(os.fdopen(requests, "rb"), lambda reply: os.write(replies, json.dumps(reply).encode() + b"\n")))


def _end_with_engine(requests: int) -> None:
    """End the process when nobody has the pipe open for writing. Takes no time of a core."""
    ended = select.poll()
    ended.register(requests, 0)
    ended.poll()
    os._exit(1)


def _serve(requests: Any, reply: Callable[[dict], Any]) -> int:
    reply({"pid": os.getpid()})
    try:
        reply({"imported": _timed(_import, lambda: _comes(requests, 0.0))[1]})
        if not _comes(requests, IDLE):
            return 0
        request = json.loads(requests.readline())
        (program, run), seconds = _timed(load, request)
        reply({"ready": seconds})
        if not _comes(requests, IDLE):
            return 0
        requests.readline()
        reply({"counted": _timed(count, program, run, request["device"])[1]})
    except Exception as e:
        reply({"error": f"{type(e).__name__}: {e}"[:1000]})
        return 1
    return 0


def _comes(requests: Any, seconds: float) -> bool:
    return bool(descriptors.readable(requests, seconds=seconds))


def _timed(work: Callable, *arguments: Any) -> tuple[Any, float]:
    began = time.monotonic()
    return work(*arguments), time.monotonic() - began


def _import(hurried: Callable[[], bool]) -> None:
    """What every program needs, and unless a request waits already, what those of one back end need."""
    with start.importing():
        import torch  # noqa: F401

        import engine.evaluate.correctness.inputs  # noqa: F401

        if not hurried():
            with contextlib.suppress(ImportError):  # the cpp back end needs neither
                import quack.epilogue.frontend
                import quack.gemm_runtime.host  # noqa: F401


def load(request: dict) -> tuple[ir.Program, Run]:
    """The program and its `run`. Starts CUDA, takes compiled kernels from the build cache, and launches nothing."""
    import torch

    from dsl.check.program import check
    from engine.build.cute_worker import import_generated

    if request["device"] == "cuda":
        torch.empty(1, device="cuda")  # creates the context, in which quack asks how many clusters fit
    module = import_generated(request["path"])
    with contextlib.suppress(Exception):  # the first call builds what is not built here
        if hasattr(module, "build"):
            module.build()
    return check(Path(request["program"]).read_text(encoding="utf-8")).program, module.load(request["artifact"])


def count(program: ir.Program, run: Run, device: str = "cuda") -> None:
    """Run the program twice, and mark the second run."""
    import torch

    from engine.evaluate.correctness.inputs import torch_dtype

    ins = [tensor(program, p, device) for p in program.params]
    outs = [torch.empty(t.shape, dtype=torch_dtype(t.dtype.value), device=device) for t in program.result_types]
    run(ins, outs)  # computes what is prepacked
    with _marked(device):
        run(ins, outs)


@contextlib.contextmanager
def _marked(device: str) -> Iterator[None]:
    import torch

    if device != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    yield
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def tensor(program: ir.Program, param: ir.Param, device: str = "cuda") -> torch.Tensor:
    """A random value of a parameter; the sizes of a grouped product share its rows equally."""
    import torch

    from dsl import ir
    from engine.evaluate.correctness.inputs import torch_dtype

    dtype, shape = torch_dtype(param.type.dtype.value), param.type.shape
    for stage in program.stages:
        if isinstance(stage, ir.GroupedGemm) and stage.sizes.name == param.name:
            rows, groups = program.type_of(stage.a.name).shape[0], shape[0]
            sizes = [rows // groups + (i < rows % groups) for i in range(groups)]
            return torch.tensor(sizes, dtype=dtype, device=device)
    if not dtype.is_floating_point:
        return torch.randint(-4, 5, shape, dtype=dtype, device=device)
    return torch.randn(shape, device=device).to(dtype)
