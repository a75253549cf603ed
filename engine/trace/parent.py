"""The engine's side of tracing: start the confined child, check its untrusted answer, explain failures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

from engine import sandbox
from engine.devices import SessionRefused
from engine.sandbox.process import SandboxEnded
from engine.trace.capture import MAX_OPS
from sol.graph import DTYPE_BYTES, Op, OpGraph, Tensor

MAX_SOURCE = 1_000_000  # of a live module as text; what people paste is bounded before
MAX_DIM = 1 << 40
MAX_TENSORS = 8 * MAX_OPS  # an operation of the modules in tests/ makes at most 5 (an LSTM), most make one
MAX_READ = 32 * MAX_OPS  # names that all operations together read; a `cat` may read hundreds. PyTorch may cast each.
MAX_VALUES = MAX_TENSORS  # in the arguments of an operation: the sizes of a split
MAX_TEXT, MAX_NESTING = 20_000, 8  # of an argument: an einsum's equation, a list of lists
_COUNTED = re.compile(
    r"linear|mm|matmul|mv|dot|einsum|conv|attention|lstm|gru|rnn|pool|norm|upsample|scan|cum|fft|sample"
)
TIMEOUT = 30.0
PATIENCE = 5.0  # CPU seconds at full priority; nearly every module takes less
PRELOAD = ("torch", "engine.trace.warm")


@dataclass(frozen=True)
class Traced:
    """`title`: a short name for the page. `has`: {class, inputs_from, init_inputs, fake, by, values,
    in_training, torch} and what engine.trace.names.remarks has; `values`: JSON of the arguments that are no tensors, or
    ""."""

    graph: OpGraph
    title: str
    has: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def note(self) -> str:
        """What a person should know of the module as it was traced; "" if nothing."""
        notes = []
        if layers := self.has.get("in_training"):
            notes.append(f"The module runs in eval mode. In training, {layers} would compute something else.")
        if self.has.get("both_branches"):
            notes.append("Both branches of torch.cond are computed and counted in the limit; PyTorch computes one.")
        if "selections" in self.has:
            notes.append(
                "Branches on whether a mask selects anything are the same in every call: they change no result."
            )
        return " ".join(notes)

    def on_gpu(self) -> OpGraph:
        """The graph, for a session that runs the module on a GPU. Raises SessionRefused if it is that of a CPU."""
        line = str(self.has.get("autocast", ""))
        if "autocast" not in self.has:
            return self.graph
        at, number = (f"Line {line}", int(line)) if line.isdecimal() and len(line) < 7 else ("The module", None)
        reason = f"{at} computes under autocast, whose casts are others on a GPU than on the CPU, where it is traced"
        raise SessionRefused("not_covered", f"{reason}; convert with .to(...) instead.", number)


def trace(
    source: str,
    *,
    gpu: bool = False,
    timeout: float = TIMEOUT,
    cancelled: Callable[[], bool] | None = None,
    local_user: bool = False,
    memory_bytes: int = 8 << 30,
    tensor_bytes: int = 64 << 30,
) -> Traced:
    """The op graph of a pasted module. Blocks for 0.1 to 3 s, and at most `timeout` seconds after the child is ready.

    `memory_bytes` bounds the child's resident memory, `tensor_bytes` what the module's inputs, parameters and
    largest intermediate tensor may need. `gpu`: trace with CUDA visible (for modules that ask for it).
    Raises SessionRefused with a stable code, one sentence and, if known, the line of the pasted text.
    """
    started = time.monotonic()
    if not source.strip():
        raise SessionRefused("empty", "There is no module: paste a PyTorch nn.Module and its example inputs.")
    if len(source) > MAX_SOURCE:
        raise SessionRefused("too_large", f"The text has {len(source):,} characters; the limit is {MAX_SOURCE:,}.")
    if "\0" in source:
        raise SessionRefused("syntax_error", "The text contains a zero byte; it is not Python.")
    try:
        source.encode()
    except UnicodeEncodeError:
        raise SessionRefused("syntax_error", "The text is not valid Unicode.") from None
    memory_bytes = min(memory_bytes, sandbox.process.default_memory())
    how = {"gpu": gpu, "local_user": local_user, "memory_bytes": memory_bytes, "cancelled": cancelled}
    message = {"entry": "engine.trace.child", "source": source}
    try:
        try:
            answer = _asked(message, timeout, **how)
        except SandboxEnded as e:
            if not e.blameless:
                raise
            answer = _asked(message, timeout, **how)
    except SandboxEnded as e:
        raise refuse(e) from None
    traced = _read(answer, time.monotonic() - started)
    _check_elements(traced.graph)
    _check_size(traced.graph, tensor_bytes, source)
    return traced


def _asked(message: dict, timeout: float, *, cancelled: Callable[[], bool] | None, **how: Any) -> dict:
    with sandbox.take(preload=PRELOAD, cancelled=cancelled, **how) as box:
        return box.request(message, timeout=timeout, cancelled=cancelled, patience=PATIENCE)


def warm(*, gpu: bool = False, local_user: bool = False, many: int = 1) -> None:
    """Start children for the next `many` traces in the background: one then takes about 0.2 s instead of 4 s."""
    sandbox.warm(gpu=gpu, local_user=local_user, preload=PRELOAD, many=many)


def refuse(ended: SandboxEnded) -> SessionRefused:
    """The refusal for a child that ended while it ran the pasted text."""
    whose = f"module's {ended.part}" if ended.part else "module"
    at = f"Line {ended.line}: the {whose}" if ended.line else f"The {whose}"
    advice = {
        "time_limit": ". It is built, and called three times: shorten what it does in Python, or end its loop.",
        "memory_limit": "; make its tensors smaller.",
        "slow_start": ", not because of the module; try again.",
        "lost": ", not because of the module; try again.",
    }.get(ended.code, ".")
    subject = {"cancelled": "Tracing was", "no_cuda": "No GPU in the sandbox:"}.get(ended.code, at)
    if ended.code in ("crashed", "slow_start") and ended.part is None:
        subject = "Tracing did not begin:"
    if ended.code == "lost":
        subject = "The process that traced the module"
    return SessionRefused(ended.code, f"{subject} {ended.what}{advice}", ended.line)


def _too_large(name: Any, size: int) -> str:
    tensor = f"Tensor {name}" if isinstance(name, str) and name.isidentifier() else "A tensor"
    return f"{tensor[:60]} has an axis of {size:.2g} elements; the limit is {MAX_DIM:.2g}. Make it smaller."


def _read(answer: dict, seconds: float) -> Traced:
    """Check the answer. The pasted text may have written any part of it, so every field is validated."""
    error = answer.get("error")
    if isinstance(error, dict):
        line = error.get("line")
        raise SessionRefused(
            str(error.get("code", "module_raised"))[:40],
            str(error.get("reason", ""))[:1000],
            line if isinstance(line, int) and 0 < line < 1_000_000 else None,
        )
    ok = answer.get("ok")
    try:
        if not isinstance(ok, dict):
            raise ValueError("it is not an object with a graph")
        graph = OpGraph.from_json(json.dumps(ok["graph"]))
        _check_order(graph)
        for t in graph.tensors.values():
            _check_tensor(t)
        for op in graph.ops:
            _check_op(op)
        if any(n not in graph.tensors for n in (*graph.inputs, *graph.outputs)) or not graph.outputs:
            raise ValueError("inputs or outputs are missing")
        _check_writes(graph)
        has = {str(k)[:40]: v for k, v in ok["has"].items() if isinstance(v, (str, bool))}
        has["in_training"] = "".join(c for c in str(has.get("in_training", "")) if c.isprintable())[:120]
        title = "".join(c for c in str(ok["title"]) if c.isprintable())[:120]
        return Traced(graph, title, has, seconds)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as e:
        raise SessionRefused(
            "garbled",
            f"What came back from the sandbox is no op graph ({str(e)[:200]}). This happens if a module writes to file "
            "descriptors that it did not open; remove such writes.",
        ) from None


def _check_tensor(t: Tensor) -> None:
    if not all(type(d) is int and 0 <= d < 1 << 63 for d in t.shape) or len(t.shape) > 16:
        raise ValueError(f"tensor {str(t.name)[:80]} has no valid shape")
    if any(d >= MAX_DIM for d in t.shape):  # of a meta tensor, or of one that is expanded
        raise SessionRefused("memory_limit", _too_large(t.name, max(t.shape)))
    if t.elements >= 1 << 63:  # PyTorch counts them in 64 bits
        raise ValueError(f"tensor {str(t.name)[:80]} has too many elements")
    if t.strides and (
        len(t.strides) != len(t.shape) or not all(type(d) is int and abs(d) < MAX_DIM for d in t.strides)
    ):
        raise ValueError(f"tensor {str(t.name)[:80]} has strides of another shape")
    if t.kind not in ("input", "parameter", "buffer", "constant", "intermediate"):
        raise ValueError(f"tensor {str(t.name)[:80]} has an unknown kind")
    if t.varies is not False and not (t.varies is True and t.kind == "intermediate"):
        raise ValueError(f"tensor {str(t.name)[:80]} has a size that varies")
    if not (isinstance(t.name, str) and t.name.isidentifier() and isinstance(t.path, str)):
        raise ValueError("a tensor has no name")


def _check_op(op: Op) -> None:
    if not op.op.isidentifier() or not op.name.isidentifier() or len(op.op) > 200 or len(op.name) > 1000:
        raise ValueError("an operation has no name")
    if not (isinstance(op.unmasked, int | float) and 0 < op.unmasked <= 1 and isinstance(op.causal, bool)):
        raise ValueError("a mask leaves no share of its scores")
    if not (isinstance(op.module, str) and f"_{op.module}".isidentifier()):
        raise ValueError("an operation's module has no name")
    if op.line is not None and not (type(op.line) is int and 0 < op.line < 1 << 31):
        raise ValueError(f"operation {op.name[:80]} is on no line")
    left = MAX_VALUES
    for name, value in op.attrs.items():
        if not name.isidentifier() or len(name) > 80:
            raise ValueError(f"operation {op.name[:80]} has an argument without a name")
        left -= _values(value, left)
        if left < 0:
            raise ValueError(f"operation {op.name[:80]} has arguments that the tracer does not write")


def _values(value: Any, most: int, nesting: int = 0) -> int:
    """The number of values in an argument as `Capture` writes it; more than `most` if it holds something else."""
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return 1 if abs(value) < 1 << 64 else most + 1
    if isinstance(value, float):
        return 1 if isfinite(value) else most + 1
    if isinstance(value, str):
        return 1 if len(value) <= MAX_TEXT else most + 1
    if not isinstance(value, list) or nesting >= MAX_NESTING or len(value) > most:
        return most + 1
    return 1 + sum(_values(v, most, nesting + 1) for v in value)


def _check_order(graph: OpGraph) -> None:
    """Raise ValueError for a graph that the tracer does not write: too large, or an operation that reads what it, a
    later one or none makes. Such a circle would never end where the engine follows a tensor to its origin."""
    reads = sum(len(op.inputs) * max(1, len(op.outputs)) for op in graph.ops)  # a cost looks at each pair of them
    if len(graph.ops) > MAX_OPS or len(graph.tensors) > MAX_TENSORS or reads > MAX_READ:
        raise ValueError(f"it has {len(graph.ops)} operations on {len(graph.tensors)} tensors")
    if max(len(graph.inputs), len(graph.outputs)) > MAX_TENSORS:
        raise ValueError(f"it has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs")
    known = {t.name for t in graph.tensors.values() if t.kind != "intermediate"}
    names: set[str] = set()
    for op in graph.ops:
        if not isinstance(op.op, str) or not isinstance(op.name, str) or not isinstance(op.attrs, dict):
            raise ValueError("an operation has no name")
        if op.name in names:  # costs are known by it
            raise ValueError(f"two operations have the name {op.name[:80]}")
        names.add(op.name)
        if not known.issuperset(op.inputs):
            raise ValueError(f"operation {op.name[:80]} reads a tensor before it is made")
        if not known.isdisjoint(op.outputs):
            raise ValueError(f"operation {op.name[:80]} makes a tensor for the second time")
        known.update(op.outputs)
    if not known.issuperset(graph.outputs):
        raise ValueError("nothing makes an output")


def _check_writes(graph: OpGraph) -> None:
    """Raise ValueError unless the last outputs are new values of tensors of the module, each of its shape and type."""
    if len(graph.writes) >= len(graph.outputs) or len(set(graph.writes)) != len(graph.writes):
        raise ValueError("it writes more than it computes")
    for old, new in graph.written.items():
        before, after = graph.tensors.get(old), graph.tensors[new]
        if (
            before is None
            or before.kind == "intermediate"
            or (before.shape, before.dtype) != (after.shape, after.dtype)
        ):
            raise ValueError(f"what is written to {str(old)[:80]} does not fit")


def _check_elements(graph: OpGraph) -> None:
    """Refuse results without elements, and products and the like of none: every rate would be 0 divided by 0."""
    reads = {n for op in graph.ops if _COUNTED.search(op.op) for n in op.inputs}
    makes = {n for op in graph.ops if _COUNTED.search(op.op) for n in op.outputs}
    for t in graph.tensors.values():
        # embedding_bag has empty results that only its gradient reads
        if 0 in t.shape and (
            t.name in graph.outputs or t.name in reads or (t.name in makes and graph.readers.get(t.name))
        ):
            producer = graph.producer.get(t.name)
            line = producer.line if producer else None
            by = f" ({producer.op})" if producer else ""
            at = f"Line {line}{by} makes a tensor" if line else f"The module's {t.kind} {t.path or t.name} is a tensor"
            raise SessionRefused(
                "empty_tensor", f"{at} without elements, {list(t.shape)}; give every axis a size from 1.", line
            )


def _check_size(graph: OpGraph, limit: int, source: str = "") -> None:
    external = sum(t.bytes for t in graph.tensors.values() if t.kind != "intermediate")
    largest = max((t.bytes for t in graph.tensors.values() if t.kind == "intermediate"), default=0)
    need = external + largest
    if need > limit:
        top = max(graph.tensors.values(), key=lambda t: prod(t.shape) * DTYPE_BYTES[t.dtype])
        line = _line_of(top, graph, source)
        at = f"Line {line}: the" if line else "The"
        way = {
            "input": "Give a smaller input, such as fewer rows.",
            "intermediate": "Make it smaller, for example by fewer rows in the inputs.",
        }.get(top.kind, "Make it smaller, or optimise one layer of the module by itself.")
        name = top.path or top.name
        raise SessionRefused(
            "memory_limit",
            f"{at} module needs {need / 1e9:.1f} GB for its tensors, the largest being {name} {list(top.shape)} of "
            f"{top.bytes / 1e9:.1f} GB; the limit is {limit / 1e9:.1f} GB. {way}",
            line,
        )


def _line_of(tensor: Tensor, graph: OpGraph, source: str) -> int | None:
    """The line that makes a tensor: an operation's, the last one that sets a module's attribute, or get_inputs()'s."""
    if tensor.kind == "intermediate":
        return next((op.line for op in graph.ops if tensor.name in op.outputs), None)
    name = re.escape(tensor.path.partition(".")[0])
    pattern = rf"\bself\.{name}\b[^=\n]*=(?!=)|\b(register_\w+|add_module)\(\s*[\"']{name}[\"']"
    if tensor.kind == "input":
        pattern = r"^(def get_inputs|inputs\b|example_inputs\b)"
    lines = [n for n, text in enumerate(source.splitlines(), 1) if re.search(pattern, text)]
    return lines[-1] if lines else None
