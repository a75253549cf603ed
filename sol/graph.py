"""The op graph of a traced module: what `engine.trace` produces and everything in `sol` reads.

Pure data with a JSON form; no torch. Ops have ATen's names without the overload: `linear`, `mul`, `leaky_relu`.
`sol.cost.graph_costs` computes their costs from names and shapes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import prod
from typing import Any

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1, "c64": 8, "c128": 16,
}  # fmt: skip
# Operations whose results are parts of their first tensor, each an interval along one axis.
SLICES = ("slice", "narrow", "chunk", "split", "split_with_sizes")


@dataclass(frozen=True)
class Tensor:
    """`kind`: input | parameter | buffer | constant | intermediate. `path`: its name in the module's state.

    `strides`: in elements, as in PyTorch; empty when unknown, which counts as contiguous. `varies`: a size depends on
    values, and `shape` is that of one call.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    path: str = ""
    strides: tuple[int, ...] = ()
    varies: bool = False

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def complex(self) -> bool:
        return self.dtype in ("c64", "c128")

    @property
    def layout(self) -> str:
        """contiguous | channels_last | transposed (the last two axes swapped) | expanded | strided."""
        if not self.strides or len(self.strides) != len(self.shape) or self.elements <= 1:
            return "contiguous"
        real = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n > 1]
        if any(s == 0 for _, s in real):
            return "expanded"
        axes = [i for i, n in enumerate(self.shape) if n > 1]
        orders = {"contiguous": list(range(len(self.shape)))}
        if len(self.shape) in (4, 5):
            orders["channels_last"] = [0, *range(2, len(self.shape)), 1]
        if len(self.shape) >= 2:
            orders["transposed"] = [*range(len(self.shape) - 2), len(self.shape) - 1, len(self.shape) - 2]
        for name, order in orders.items():
            step, dense = 1, True
            for axis in reversed([a for a in order if a in axes]):
                dense &= self.strides[axis] == step
                step *= self.shape[axis]
            if dense:
                return name
        return "strided"


@dataclass(frozen=True)
class Op:
    """One operation. `inputs` names tensors; `attrs` holds every other argument by its ATen name.

    `line`: the line of the pasted module that calls it, if known. `module`: the torch.nn module that it belongs to
    ("LSTM"), or "". `unmasked`: of an operation that masks attention scores by a mask that is the same in every call,
    the share of scores that the mask leaves; `causal`: the mask leaves the diagonal of a square and all below it.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    line: int | None = None
    module: str = ""
    unmasked: float = 1.0
    causal: bool = False


def _external(ops: Iterable[Op]) -> set[str]:
    """What these operations read and none of them makes."""
    return {n for op in ops for n in op.inputs} - {n for op in ops for n in op.outputs}


@dataclass(frozen=True)
class OpGraph:
    """Ops in execution order over named tensors; `inputs` and `outputs` in call order.

    `writes`: the buffers, parameters, tensor attributes and inputs that forward writes. Their new values are the last
    of `outputs`, in the same order; the first ones are what forward returns. `settled`: the graph is that of every call
    but the first, which makes tensors that later calls read (a mask that is made once).
    """

    tensors: dict[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    writes: tuple[str, ...] = ()
    settled: bool = False

    @property
    def returned(self) -> tuple[str, ...]:
        """What forward returns: the outputs without the new values of what it writes."""
        return self.outputs[: len(self.outputs) - len(self.writes)]

    @property
    def written(self) -> dict[str, str]:
        """Tensor that forward writes -> the tensor with its new value."""
        return dict(zip(self.writes, self.outputs[len(self.returned) :], strict=True))

    @cached_property
    def producer(self) -> dict[str, Op]:
        """Tensor name -> the op that writes it."""
        return {n: op for op in self.ops for n in op.outputs}

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """Tensor name -> the ops that read it, in order."""
        readers: dict[str, list[Op]] = {}
        for op in self.ops:
            for n in dict.fromkeys(op.inputs):
                readers.setdefault(n, []).append(op)
        return readers

    @cached_property
    def order(self) -> dict[str, int]:
        """Op name -> its position in `ops`."""
        return {op.name: i for i, op in enumerate(self.ops)}

    @cached_property
    def cache(self) -> dict[str, Any]:
        """Results of functions of this graph, each under the function's own key, so that they are computed once."""
        return {}

    @cached_property
    def live(self) -> tuple[Op, ...]:
        """The ops that some output depends on, in order; the rest need not run."""
        needed, live = set(self.outputs), []
        for op in reversed(self.ops):
            if needed.intersection(op.outputs):
                live.append(op)
                needed.update(op.inputs)
        return tuple(reversed(live))

    def steps(self, groups: Iterable[Collection[str]] = ()) -> Iterator[tuple[int | None, tuple[Op, ...]]]:
        """The live ops in an order in which each finds what it reads, as (None, (op,)). The ops of a group, given by
        their names, run as one: (its index, its ops). Raises ValueError for groups that wait for each other."""
        of = {name: i for i, group in enumerate(groups) for name in group}
        waiting: dict[Any, list[Op]] = {}
        for op in self.live:
            waiting.setdefault(of.get(op.name, op.name), []).append(op)
        there = {n for n, t in self.tensors.items() if t.kind != "intermediate"}
        while waiting:
            at = next((at for at, ops in waiting.items() if _external(ops) <= there), None)
            if at is None:
                first = next(iter(waiting.values()))[0]
                raise ValueError(f"the regions wait for each other: {', '.join(first.inputs)}")
            ops = tuple(waiting.pop(at))
            there.update(n for op in ops for n in op.outputs)
            yield (at if isinstance(at, int) else None), ops

    def to_json(self) -> str:
        tensors = [asdict(t) for t in self.tensors.values()]
        for t in tensors:
            if not t["varies"]:  # as in older graphs
                del t["varies"]
        return json.dumps(asdict(self) | {"tensors": tensors})

    @staticmethod
    def from_json(text: str) -> OpGraph:
        """Raises ValueError when the text is not a graph: an op that reads an unknown tensor, a bad dtype."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict) or "tensors" not in raw:
                report = isinstance(raw, dict) and {"bounds", "levers"} <= set(raw)
                what = "this is a report, made from a graph" if report else "it has no tensors"
                raise ValueError(f"not an op graph: {what}; `python -m engine trace FILE` writes a graph")
            tensors = {}
            for t in raw["tensors"]:
                if t["dtype"] not in DTYPE_BYTES:
                    raise ValueError(f"tensor {t['name']} has an unknown element type {t['dtype']!r}")
                tensors[t["name"]] = Tensor(
                    **{**t, "shape": tuple(t["shape"]), "strides": tuple(t.get("strides") or ())}
                )
            ops = tuple(Op(**{**o, "inputs": tuple(o["inputs"]), "outputs": tuple(o["outputs"])}) for o in raw["ops"])
            writes = tuple(raw.get("writes", ()))
            graph = OpGraph(tensors, ops, tuple(raw["inputs"]), tuple(raw["outputs"]), writes, bool(raw.get("settled")))
        except (KeyError, TypeError, json.JSONDecodeError) as e:
            raise ValueError(f"not an op graph: {e}") from None
        for op in ops:
            for name in (*op.inputs, *op.outputs):
                if name not in tensors:
                    raise ValueError(f"op {op.name} names an unknown tensor {name!r}")
        return graph
