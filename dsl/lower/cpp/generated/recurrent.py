"""The plan of a recurrent stage: one persistent kernel of clusters (templates/own/recurrent.cu.j2).

Each cluster computes some sequences in one direction, with weight_hh in its blocks' registers and shared memory
(dsl.rules.recurrent.layout). Clusters never wait for each other, so the grid may be larger than what a GPU runs at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import DType, Program, Recurrent, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.space import HEADER
from dsl.rules.recurrent import layout as rules

CTYPES = {DType.F32: "float", DType.F16: "__half", DType.BF16: "__nv_bfloat16"}
FUNCTIONS = {
    "lstm": ("sigmoid", "tanh"), "gru": ("sigmoid", "tanh"), "rnn_tanh": ("tanh",), "rnn_relu": ("relu",),
}  # fmt: skip


@dataclass(frozen=True)
class Pointer:
    """A tensor of the kernel: the name of its pointer, its element type, and the tensor in the program."""

    name: str
    ctype: str
    tensor: str


@dataclass(frozen=True)
class RecurrentPlan:
    """The plan of a recurrent stage, for templates/own/recurrent.cu.j2.

    `pointers`: every tensor once a use, results last; `compute`: tf32 | f16 | bf16 | f32. Strides are in elements:
    `time` and `batch` of the gates, `y_time` and `y_batch` of the result.
    """

    name: str
    layout: rules.Layout
    op: str
    compute: str
    steps: int
    batch: int
    directions: int
    layer: int
    time: int
    batch_stride: int
    y_time: int
    y_batch: int
    pointers_of: tuple[Pointer, ...]
    headers: tuple[str, ...]
    kind: str = "recurrent"
    template: str = "own/recurrent.cu.j2"
    shared: tuple[str, ...] = ("own/common.cu.j2", "own/tensor.cu.j2", "own/cluster.cu.j2")
    launch: tuple[int, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.tensor for p in self.pointers_of))

    @property
    def functions(self) -> tuple[str, ...]:
        return FUNCTIONS[self.op]

    @property
    def blocks(self) -> int:
        return self.layout.blocks * self.directions

    def has(self, name: str) -> bool:
        """Return True if the kernel has this pointer."""
        return any(p.name == name for p in self.pointers_of)

    def ctype(self, name: str) -> str:
        return next(p.ctype for p in self.pointers_of if p.name == name)


def plan_recurrent(program: Program, stage: Recurrent, types: dict[str, TensorType]) -> RecurrentPlan:
    """The plan of a checked stage. Raises Refusal if no cluster holds the weights."""
    if program.arch not in (None, "sm_90a"):
        message = f"the cpp back end writes recurrent for sm_90a, not {program.arch}"
        raise Refusal("cpp-arch", message, "write arch sm_90a")
    layout = rules.layout_of(stage, types)
    if layout is None:
        raise Refusal("cpp-recurrent", "no cluster of 16 blocks holds weight_hh", "leave the layer to PyTorch")
    named = [
        *(("gates", o) for o in stage.gates), *(("weights", o) for o in stage.weights),
        *(("biases", o) for o in stage.biases),
    ]  # fmt: skip
    places: dict[str, str] = {}
    for kind, o in named:
        places[f"{kind}1" if f"{kind}0" in places else f"{kind}0"] = o.name
    places |= {name: o.name for name, o in zip(("hidden_0", "cell_0"), stage.states, strict=False)}
    places["y"] = stage.name
    places |= {"cell_n" if a.expr.second else "hidden_n": a.name for a in stage.also}
    pointers = tuple(Pointer(name, CTYPES[types[tensor].dtype], tensor) for name, tensor in places.items())
    lead = types[stage.gates[0].name].shape
    steps, batch = lead[:2] if stage.order == "tb" else lead[1::-1]
    width, y_width = lead[2], stage.type.shape[2]
    inner, outer = (batch, 1) if stage.order == "tb" else (1, steps)
    compute = rules.compute_of(stage, types)
    used = {types[tensor].dtype for tensor in places.values()}
    return RecurrentPlan(
        stage.name, layout, stage.op, compute.value, steps, batch, stage.directions, stage.layer, inner * width,
        outer * width, inner * y_width, outer * y_width, pointers,
        tuple(sorted({HEADER[d] for d in used if d in HEADER})),
    )  # fmt: skip


__all__ = ["RecurrentPlan", "plan_recurrent"]
