"""Measure the host's time for a call of an exported module, and try it under everything that PyTorch puts around one.

    python -m engine.bench.studies.host_time --json host.json                       # on this machine's GPU
    python -m engine.bench.studies.host_time mlp_gelu attention_projections --device cpu --json host.json

`over_us` is the host's time for a call whose programs launch nothing: the Python between a caller and the launches. It
needs no GPU; but a CPU maps the memory of a large result at every call, where a GPU reuses it. `--device cuda` also
gives `call_us` (with the launches, queued and not waited for), PyTorch's `eager_us`, and `works`: whether the module
gives the original's result when it is called, replayed as a CUDA graph, on a stream of its own, compiled whole by
torch.compile, and exported by torch.export. Every time is the least of ROUNDS rounds, because other work on the host
can only add to one; `medians` has their medians.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from engine import atomic_write
from engine.export import ExportError, command, forms, write
from engine.words import count

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
MODULES = ("mlp_gelu", "linear_div_gelu", "attention_projections", "layernorm_linear_gelu_linear", "conv2d_relu_bias")
ROUNDS, CALLS = 9, 200
AIM_US = 10.0
TOLERANCE = 2e-2  # of a result beside the original's in its own type; check.py compares in float64


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.host_time", description=__doc__.split("\n")[0]
    )
    parser.add_argument("problems", nargs="*", default=MODULES, metavar="PROBLEM", help="names of examples, or files")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--class", dest="cls", default="f16", metavar="CLASS")
    parser.add_argument("--json", required=True, metavar="OUT")
    args = parser.parse_args(argv)
    rows = []
    for name in args.problems:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row_of(name, args.cls, args.device, Path(folder)))
        print(_line(rows[-1]), flush=True)
        atomic_write.write_results(Path(args.json), _machine(args.device) | {"aim_us": AIM_US, "rows": rows})
    return 0 if all("over_us" in row for row in rows) else 1


def row_of(name: str, cls: str, device: str, folder: Path) -> dict[str, Any]:
    """The times of one problem, in microseconds, or {problem, refused}."""
    path = Path(name) if Path(name).exists() else PROBLEMS / f"{name}.py"
    try:
        whole = command.of_module(path.read_text(encoding="utf-8"), (cls,), path.stem)
    except (ExportError, OSError) as e:
        return {"problem": path.stem, "refused": str(e)}
    write(forms.files(whole), folder / "out")
    with _on_path(folder / "out"):
        package = importlib.import_module(f"ucutlass_{whole.stem}")
        row = {"problem": path.stem, "class": whole.cls, "programs": len(whole.placed), "pytorch": len(whole.rest)}
        return row | _measured(package, path, device)


def _measured(package: ModuleType, path: Path, device: str) -> dict[str, Any]:
    import torch

    names: dict[str, Any] = {"__name__": "module"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), names)
    with torch.device(device):
        model = names["Model"](*names.get("get_init_inputs", list)()).eval()
        inputs = [x.to(device) if torch.is_tensor(x) else x for x in names["get_inputs"]()]
    with torch.no_grad():
        with silent(package):
            empty = package.optimized(model)
            times = {"over_us": _host_us(lambda: empty(*inputs), device)}
        if device == "cpu":
            return _least(times)
        fast = package.optimized(model)
        times["call_us"] = _host_us(lambda: fast(*inputs), device)
        times["eager_us"] = _host_us(lambda: model(*inputs), device)
        return _least(times) | {"works": works(model, fast, inputs)}


def _least(times: dict[str, list[float]]) -> dict[str, Any]:
    return {name: min(us) for name, us in times.items()} | {"medians": {name: median(us) for name, us in times.items()}}


@contextlib.contextmanager
def silent(package: ModuleType) -> Iterator[None]:
    """In this context a package's programs launch nothing, also on a CPU. Results are whatever memory held."""
    drop_in, compose = (importlib.import_module(f"{package.__name__}.{part}") for part in ("_drop_in", "_compose"))
    own, launches = drop_in.programs, drop_in._launches
    programs = {
        name: compose.Program(lambda: lambda inputs, outputs: None, one.operator) for name, one in own().items()
    }
    drop_in._FORWARDS.pop(True, None)
    drop_in.programs, drop_in._launches = lambda: programs, lambda x: True
    try:
        yield
    finally:
        drop_in.programs, drop_in._launches = own, launches
        drop_in._FORWARDS.pop(True, None)


def works(model: Any, fast: Any, inputs: list[Any]) -> dict[str, bool | str]:
    """Whether the module gives the original's result under each of PyTorch's ways to run one: True, or the error. On a
    GPU."""
    import torch

    right = model(*inputs)

    def graph() -> Any:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            fast(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            out = fast(*inputs)
        captured.replay()
        return out

    def stream() -> Any:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = fast(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        return out

    ways: dict[str, Callable[[], Any]] = {
        "called": lambda: fast(*inputs),
        "cuda_graph": graph,
        "stream": stream,
        "torch.compile": lambda: torch.compile(fast, fullgraph=True)(*inputs),
        "torch.export": lambda: torch.export.export(fast, tuple(inputs)).module()(*inputs),
    }
    return {name: _same(way, right) for name, way in ways.items()}


def _same(way: Callable[[], Any], right: Any) -> bool | str:
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        outs = tree_leaves(way())
        torch.cuda.synchronize()
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:300]
    pairs = zip(outs, tree_leaves(right), strict=True)
    return all(bool((a.double() - b.double()).norm() <= TOLERANCE * b.double().norm()) for a, b in pairs)


def _host_us(call: Callable[[], Any], device: str) -> list[float]:
    """Microseconds of a call that is queued and not waited for, in each round."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        call()
    times = []
    for _ in range(ROUNDS):
        wait()
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - began) / CALLS * 1e6)
    wait()
    return times


@contextlib.contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _machine(device: str) -> dict[str, Any]:
    import torch

    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {"device": device, "gpu": gpu, "cpu": platform.processor(), "torch": torch.__version__,
            "python": platform.python_version(), "began": time.time(), "command": sys.argv}  # fmt: skip


def _line(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['problem']}: {row['refused']}"
    text = f"{row['problem']}: {row['over_us']:.1f} us over the launches of {count(row['programs'], 'program')}"
    if "call_us" in row:
        fails = [name for name, result in row["works"].items() if result is not True]
        text += f", {row['call_us']:.1f} us a call, PyTorch {row['eager_us']:.1f} us"
        text += f"; fails: {', '.join(fails)}" if fails else "; works in every way"
    return text


if __name__ == "__main__":
    sys.exit(main())
