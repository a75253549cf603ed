"""One name for each operation that ATen spells in several ways.

torch.export keeps `batch_norm` whole, but `run_decompositions`, which makes in-place operations functional, writes
`_native_batch_norm_legit_no_training`, and torch.fx writes what the CPU or cuDNN runs. Which spelling appears depends
on the release of PyTorch and on the rest of the module. Rules of costs and of lowering know the composite operation
(`batch_norm`, `layer_norm`, `group_norm`), so a graph leaves the tracer with that name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

_BATCH_NORM = ("input", "weight", "bias", "running_mean", "running_var")
_CUDNN = {"exponential_average_factor": "momentum", "epsilon": "eps"}  # cudnn_batch_norm's names
# Spelling -> (names of its tensors, names of its attributes); what is not an attribute has a value here already.
_ALWAYS_INFERENCE = ("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
_EITHER = (
    "batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_batch_norm_impl_index", "cudnn_batch_norm", "miopen_batch_norm",
)  # fmt: skip
BATCH_NORMS = frozenset((*_ALWAYS_INFERENCE, *_EITHER))


def composite(op: dict, read: Container[str]) -> dict:
    """The operation under its composite name. It stays as it is if another of its results is read, or if no composite
    operation computes the same. `op`: an entry of a graph's `ops`; `read`: the tensors that something reads."""
    if any(name in read for name in op["outputs"][1:]):
        return op
    rewritten = _REWRITES[op["op"]](op) if op["op"] in _REWRITES else None
    return op if rewritten is None else {**op, **rewritten, "outputs": op["outputs"][:1]}


def _tensors(op: dict, schema: tuple[str, ...]) -> dict[str, str]:
    """Argument -> tensor. Arguments that are None are attributes."""
    return dict(zip((n for n in schema if n not in op["attrs"]), op["inputs"], strict=False))


def _entry(name: str, schema: tuple[str, ...], inputs: dict[str, str], attrs: dict[str, Any]) -> dict:
    missing = {n: None for n in schema if n not in inputs}
    return {"op": name, "inputs": [inputs[n] for n in schema if n in inputs], "attrs": {**missing, **attrs}}


def _batch_norm(op: dict) -> dict | None:
    """batch_norm(input, weight?, bias?, running_mean?, running_var?, training, momentum, eps, cudnn_enabled)."""
    attrs = {_CUDNN.get(name, name): value for name, value in op["attrs"].items()}
    schema = _BATCH_NORM
    if "running_mean" not in attrs and len(op["inputs"]) + sum(n in attrs for n in _BATCH_NORM) == 3:
        schema = _BATCH_NORM[:3]  # the overload no_stats has no arguments for the statistics
    inputs = _tensors({**op, "attrs": attrs}, schema)
    training = False if op["op"] in _ALWAYS_INFERENCE else bool(attrs.get("training"))
    rest = {"training": training, "momentum": attrs.get("momentum", 0.1), "eps": attrs["eps"], "cudnn_enabled": True}
    return _entry("batch_norm", _BATCH_NORM, inputs, rest)


def _layer_norm(op: dict) -> dict:
    inputs = _tensors(op, ("input", "weight", "bias"))
    rest = {"normalized_shape": op["attrs"]["normalized_shape"], "eps": op["attrs"]["eps"], "cudnn_enable": True}
    return _entry("layer_norm", ("input", "weight", "bias"), inputs, rest)


def _group_norm(op: dict) -> dict:
    inputs = _tensors(op, ("input", "weight", "bias"))
    rest = {"num_groups": op["attrs"]["group"], "eps": op["attrs"]["eps"], "cudnn_enabled": True}
    return _entry("group_norm", ("input", "weight", "bias"), inputs, rest)


def _softmax(op: dict) -> dict | None:
    if op["attrs"].get("half_to_float"):
        return None
    return {"op": op["op"].removeprefix("_"), "attrs": {"dim": op["attrs"]["dim"], "dtype": None}}


_REWRITES: dict[str, Callable[[dict], dict | None]] = {
    **dict.fromkeys(BATCH_NORMS - {"batch_norm"}, _batch_norm),
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
}


def composites(ops: list[dict], outputs: list[str]) -> Iterator[dict]:
    """Every operation of a graph by its composite name where it has one."""
    read = {name for op in ops for name in op["inputs"]} | set(outputs)
    for op in ops:
        yield composite(op, read)
