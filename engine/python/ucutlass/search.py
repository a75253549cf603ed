"""`optimize`: a session on a live module, and the module that comes of it."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine import progress
from engine.evaluate.timing.samples import Timer
from engine.export import ExportError, forms, history
from engine.export.composition import Whole
from engine.export.package import OWN_FILES, SHIPPED
from engine.session import events, recording
from engine.session.runner import BadSpec, run
from engine.session.spec import LIVE_SOURCE, LiveSpec
from engine.trace import capture, exported
from engine.trace.explain import explain
from engine.trace.load import Bad
from engine.trace.writes.state import State, refuse_resized
from engine.words import baseline_name
from sol.bounds import legal_classes
from sol.graph import OpGraph
from sol.hardware import load

from . import arguments, lasting, source, ways
from .errors import OptimizeError
from .report import Report

NATIVE = {torch.float16: "f16", torch.bfloat16: "bf16"}  # the class of a module whose parameters are of this type
STRUCTURES = "give tensors, plain values, and tuples, lists, dictionaries and dataclasses of them"
_ODD = re.compile(r"Unsupported input type <class '([\w.]+)'>|Found <class '([\w.]+)'> in output")
NOISY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
MORE = 0.25
PLAIN = (bool, int, float, str, type(None))
FUSED = "what stays PyTorch is compiled by Inductor at the first call, because that was faster"


@dataclass(frozen=True)
class Live:
    """A module as it was traced here: its graph, its tensors by their names in the graph, its tensor arguments, the
    other ones (None if one is no plain value), and how it returns its results. `settled`: as after its first call."""

    graph: OpGraph
    values: dict[str, torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    others: tuple[Any, ...] | None
    spec: Any
    settled: bool = False


def optimize(
    module: torch.nn.Module,
    inputs: Any,
    *,
    classes: str | Sequence[str] | None = None,
    seconds: float = 120.0,
    device: str | None = None,
    verbose: bool = True,
    torch_compile: bool = True,
    kwargs: Mapping[str, Any] | None = None,
    **fields: Any,
) -> torch.nn.Module:
    """A module that computes what `module` does, faster, for inputs of these shapes; `.report` says how much faster.

    `inputs`: the arguments of forward: a tensor, a list or tuple of arguments, or a dictionary of named ones; `kwargs`:
    named ones beside a list.
    `classes`: the precision classes allowed (tf32, f16, bf16, fp8); None: tf32, or the type of a half-precision module.
    `seconds`: of searching; what is under way then has a quarter of that to end. `torch_compile`: on a GPU, also
    compile the module with torch.compile, for up to a minute or so, and return that where it is faster, with the same
    parameters and the precision that it has now. `device`: cuda, or modelled:h200 for a prediction; None: the GPU where
    there is one. `fields`: others of a session (`trials`, `strategy`, `seed`, ...). The result shares the parameters of
    `module`, and is for inference. Where nothing is faster it is the module itself. Raises OptimizeError.
    """
    call = arguments.checked(module, inputs, kwargs)
    device = device or ("cuda" if torch.cuda.is_available() else "modelled:h200")
    home = next(x.device for x in call.leaves if torch.is_tensor(x))
    if device == "cuda" and home.type != "cuda":
        raise OptimizeError(f"the module is on {home} and the search on the GPU: move module and inputs with .cuda()")
    live = trace(module, call.args, call.kwargs)
    if classes is None:
        native = NATIVE.get(next((p.dtype for p in module.parameters()), None), "tf32")
        legal = legal_classes(live.graph, load("h200"))
        classes = (native if native in legal or not legal else legal[0],)
    title = fields.pop("title", type(module).__name__)
    try:
        text = source.write(title, live.graph, live.values, live.inputs)
        if len(text) > LIVE_SOURCE:
            many = f"{title} has {len(live.graph.ops):,} operations, whose text has {len(text):,} characters"
            raise OptimizeError(f"{many}; a session takes {LIVE_SOURCE:,}. Optimise its layers one by one")
        names = (classes,) if isinstance(classes, str) else tuple(classes)
        spec = LiveSpec(title=title, source=text, device=device, classes=names, **fields)
    except (source.NotWritten, BadSpec) as e:
        raise OptimizeError(str(e)) from None
    log = _folder() / "sessions" / f"{title}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
    collected, over = _session(spec, seconds, verbose, log)
    ending = f"the {seconds:g} s are used up" if over else collected.view.end.reason
    fast = _result(module, call, live, collected, Report(title, "", "", reason=ending, source=text, log=log))
    if torch_compile and fast.report.kind == "measured":
        fast = ways.fastest(module, fast, call.args, Timer, named=call.kwargs)
    return fast


# ---- what comes in ----


def trace(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Live:
    """The module's graph, by torch.export in this process. A module whose first call makes buffers in other shapes than
    it began with, which later calls read, is then as after that call. Raises OptimizeError."""
    call = arguments.Call(args, dict(kwargs or {}))
    try:
        return _traced(module, call)
    except exported.Resized:
        lasting.settle(module, call)
    try:
        return replace(_traced(module, call), settled=True)
    except exported.Resized as e:
        raise OptimizeError(refuse_resized(e.path, e.before, e.after).reason) from None


def _traced(module: torch.nn.Module, call: arguments.Call) -> Live:
    before = State(module)
    try:
        with _quiet():
            program = exported.export(module, call.args, call.kwargs)
        changed = before.changed()
        graph_capture = capture.Capture(program)
        graph = OpGraph.from_json(json.dumps(graph_capture.graph()))
        constants = graph_capture.constants()
    except exported.Resized:
        raise
    except Exception as e:
        if odd := _ODD.match(str(e)):
            where = "forward takes" if odd[1] else "forward returns"
            raise OptimizeError(f"{where} a {odd[1] or odd[2]}: {STRUCTURES}") from None
        why = e.reason if isinstance(e, Bad) else explain(e, "torch.export").reason
        raise OptimizeError(f"PyTorch cannot trace {type(module).__name__}{_place(e)}: {why}") from None
    finally:
        before.restore()
    if changed.tensors or changed.others:
        lasting.check(module, call, program, before, changed.tensors | changed.others)
    if not graph.ops:
        raise OptimizeError("the module computes nothing from its inputs: there is no operation to make faster")
    others = tuple(x for x in call.leaves if not torch.is_tensor(x))
    values = {
        t.name: _tensor(module, t.path, constants)
        for t in graph.tensors.values()
        if t.kind in ("parameter", "buffer", "constant")
    }
    return Live(
        graph,
        values,
        tuple(x for x in call.leaves if torch.is_tensor(x)),
        others if all(isinstance(x, PLAIN) for x in others) else None,
        program.call_spec.out_spec,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch logs and prints of a failure, traceback, half a graph and all: its reason is raised."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    prints = vars(importlib.import_module("torch.export._trace"))
    try:
        prints["print"] = lambda *words, **how: None
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        prints.pop("print", None)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _place(error: BaseException) -> str:
    """The last line of the module's own files that an exception passed, for a message."""
    others = (torch.__file__, exported.__file__, __file__, os.__file__)  # PyTorch, the engine, this package, Python
    folders = tuple(str(Path(file).parent) for file in others)
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(folders)]
    return f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""


def _tensor(module: torch.nn.Module, path: str, constants: Mapping[str, Any]) -> torch.Tensor:
    value: Any = module
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, (list, tuple)) else getattr(value, part, None)
        if value is None:
            return constants[path]
    return value


# ---- the session ----


def _session(spec: LiveSpec, seconds: float, verbose: bool, log: Path) -> tuple[progress.Collected, bool]:
    """A whole session, and whether its search was ended after so many seconds. Raises OptimizeError where it is refused
    or fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        collected = progress.Collected(stack.enter_context(recording.Writer(log)))
        display = stack.enter_context(progress.Display()) if verbose else None
        clock = Clock(seconds, collected)
        for emitted in stack.enter_context(contextlib.closing(run(spec, control=clock.commands, local_user=True))):
            collected.add(emitted)
            if display is not None:
                display.show(emitted.event)
    end = collected.view.end
    if end is None or end.state in ("refused", "failed"):
        raise OptimizeError(end.reason if end is not None else "the session did not come to its end")
    return collected, clock.ended and (end.state == "stopped" or end.code == "budget_used")


class Clock:
    """The owner of a session that may search for `seconds`. Then no trial begins any more, if one has a time; the one
    under way and the session's own last ones have MORE of the seconds to end. Without a time the session stops at once.
    `ended`: whether it has ended the search."""

    def __init__(self, seconds: float, collected: progress.Collected):
        self.collected, self.ended, self._stopped = collected, False, False
        self._until = time.monotonic() + seconds
        self._last = self._until + MORE * seconds

    def commands(self) -> list[tuple[str, dict]]:
        now, log = time.monotonic(), [e for _, _, e in self.collected.rows]
        timed = any(isinstance(e, events.TrialJudged) for e in log)
        if not self.ended and self._until <= now < self._last and timed:
            self.ended = True
            return [("budget", {"trials": max(1, sum(isinstance(e, events.TrialProposed) for e in log))})]
        if self._stopped or now < (self._last if timed else self._until):
            return []
        self.ended = self._stopped = True
        return [("stop", {})]


# ---- what comes out ----


def _result(
    module: torch.nn.Module, call: arguments.Call, live: Live, collected: progress.Collected, report: Report
) -> torch.nn.Module:
    view = collected.view
    best = view.headline
    report = replace(
        report, device=view.device.get("title") or view.device.get("name", ""), kind=view.device.get("kind", ""),
        bounds_ms=dict(view.bounds), trials=len(view.trials), seconds=view.end.seconds or 0.0,
    )  # fmt: skip
    if best is None or best.form == "kernel":
        theirs = min((b for b in view.baselines if b.ms is not None), key=lambda b: b.ms, default=None)
        fast = copy.copy(module)
        if theirs is not None:
            name = baseline_name(theirs.name)
            report = replace(report, ms=theirs.ms, pytorch_ms=theirs.ms, baseline=name, speedup=1.0)
    else:
        whole = _own(collected, live)
        package = _imported(whole)
        if live.inputs[0].is_cuda:
            _build(package)
        fast = package.optimized(module, live.spec, call)
        report = replace(
            report, cls=best.cls, ms=best.judged.ms, speedup=best.judged.speedup,
            pytorch_ms=best.measured.baseline_ms, baseline=baseline_name(best.judged.baseline),
            programs=tuple(_words(p) for p in whole.placed), pytorch=tuple(op.op for op in whole.rest),
            notes=(*report.notes, *(FUSED,) * whole.fused),
        )  # fmt: skip
    fast.__dict__["report"] = report
    return fast


def _build(package: Any) -> None:
    """Build the programs in this process, so that the first call does not wait for it. Raises OptimizeError."""
    try:
        package.build()
    except (ImportError, RuntimeError, OSError) as e:
        why = f"{type(e).__name__}: {e}"
        raise OptimizeError(
            f"the programs cannot be built in this process ({why}); install requirements-gpu.txt"
        ) from e


def _own(collected: progress.Collected, live: Live) -> Whole:
    """The composition that the session found best, on the tensors of the module itself."""
    rows = [(e.KIND, progress.events.encode(e)) for _, _, e in collected.rows]
    whole = history.of_session(rows, collected.blobs.get, drawn=False)
    if not isinstance(whole, Whole):
        raise ExportError("the session does not say which tensors its programs read")
    graph, tensors = whole.graph, dict(whole.graph.tensors)
    own = {source.attribute(name): live.graph.tensors[name] for name in live.values}
    for name, t in tensors.items():
        if t.path in own:
            tensors[name] = replace(t, path=own[t.path].path, kind=own[t.path].kind)
    graph = replace(graph, tensors=tensors, settled=live.settled)
    texts = "".join(p.program.text for p in whole.placed) + graph.to_json() + _shipped()
    texts += f"{whole.captured} {whole.fused}"
    title = f"{whole.title} {hashlib.sha256(texts.encode()).hexdigest()[:8]}"
    return replace(whole, title=title, module=None, graph=graph, values=live.others, results=None, figures={})


@functools.cache
def _shipped() -> str:
    """The code that every package holds: a package of another version is not used again."""
    files = [*SHIPPED.glob("*.py"), *OWN_FILES.values()]
    return "".join(file.read_text(encoding="utf-8") for file in sorted(files))


def _words(placed: Any) -> str:
    region = dict(placed.program.region or {})
    what = region.get("words") or "the whole module"
    return f"{placed.name}: {what} ({placed.program.backend}, {placed.program.cls})"


def _imported(whole: Whole) -> Any:
    """The package of a composition, written below the cache and imported."""
    folder = _folder() / "optimized"
    name = f"ucutlass_{whole.stem}"
    if not (folder / name / "composition.json").exists():
        for path, text in forms.files(whole).items():
            file = folder / path.partition("/")[2]
            if file.relative_to(folder).parts[0] == name:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _folder() -> Path:
    return Path(os.environ.get("UCUTLASS_CACHE") or Path.home() / ".cache" / "ucutlass")


__all__ = ["Live", "optimize", "trace"]
