"""The text that one stage adds to the generated module, and the table of lowering modules.

A lowering module has `plan(program, stage) -> StagePlan | None`. It returns None if the next module in the table should
plan the stage, and raises Refusal if no module can. The names in program and stage are already valid in Python. Modules
are imported at their first use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module

from dsl import ir
from dsl.ir import DType, Program, Stage, TensorType
from dsl.lower import Refusal

CUTE = {
    DType.F32: "Float32",
    DType.F16: "Float16",
    DType.BF16: "BFloat16",
    DType.E4M3: "Float8E4M3FN",
    DType.E5M2: "Float8E5M2",
    DType.I8: "Int8",
    DType.I32: "Int32",
    DType.F64: "Float64",
}
TORCH = {
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.E4M3: "float8_e4m3fn",
    DType.E5M2: "float8_e5m2",
    DType.I8: "int8",
    DType.I32: "int32",
    DType.F64: "float64",
}

# Kind of stage -> modules of dsl.lower.cute; the first one that returns a plan is used.
LOWERINGS: dict[type, tuple[str, ...]] = {
    ir.Gemm: ("gemm.gemm_text",),
    ir.GroupedGemm: ("gemm.gemm_text",),
    ir.Conv: ("conv.direct", "conv.tensor_core_conv"),  # direct: depthwise, few channels, compute f32
    ir.Transform: ("transform",),
    ir.Map: ("pointwise",),
    ir.Reduce: ("reduce.reduction",),
    ir.Normalize: ("reduce.normalize",),
    ir.Pool: ("reduce.pool",),
    ir.Attention: ("attention.flash",),
    ir.Concat: ("concat",),
}


class Text:
    """Generated lines, with marks: the ranges of lines that a (stage, clause) determines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.marks: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def add(self, text: str, *marks: tuple[str, str]) -> None:
        first = len(self.lines) + 1
        self.lines += text.rstrip("\n").split("\n")
        for mark in marks:
            self.marks.setdefault(mark, []).append((first, len(self.lines)))

    def gap(self, lines: int = 1) -> None:
        self.lines += [""] * lines

    def span(self, mark: tuple[str, str], first: int) -> None:
        """Mark the lines from `first` to the last."""
        self.marks.setdefault(mark, []).append((first, len(self.lines)))

    def include(self, other: Text) -> None:
        """Append the lines and marks of another text."""
        at = len(self.lines)
        self.lines += other.lines
        for mark, ranges in other.marks.items():
            self.marks.setdefault(mark, []).extend((a + at, b + at) for a, b in ranges)

    @property
    def next(self) -> int:
        return len(self.lines) + 1

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Part:
    """Text that stages share (a class, a kernel). A module has it once, in the order of `rank`, then of first use."""

    text: str
    rank: int = 50


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of a stage: the tensor `<stage>_<suffix>` of the module, which `load` allocates once."""

    suffix: str
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StagePlan:
    """The text of one stage in the module.

    text       defines `<STAGE>` (the stage's name in capitals): an object with `plan(*arguments)`, which compiles
               and launches nothing, and `__call__(*arguments)`, which launches on the current stream.
               Its marks have no stage: ("", clause).
    arguments  the text of the call's arguments, over names of tensors.
    tensors    the names in `arguments`, in order of use.
    reads      clauses that determine the arguments (for the line map).
    """

    text: Text
    arguments: str
    tensors: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    imports: frozenset[tuple[str, str]] = frozenset()
    scratch: tuple[Scratch, ...] = ()
    reads: tuple[str, ...] = ()
    modules: frozenset[str] = field(default=frozenset())  # plain imports: "cutlass", "cutlass.cute as cute"


def types_of(program: Program) -> dict[str, TensorType | None]:
    """The type of every tensor by name, in program order: parameters, results, `also`s."""
    types: dict[str, TensorType | None] = {p.name: p.type for p in program.params}
    for s in program.stages:
        types[s.name] = s.type
        types.update({a.name: a.type for a in s.also})
    return types


def plan_stage(program: Program, stage: Stage) -> StagePlan:
    """The plan of the first module that takes the stage. Raises Refusal."""
    for name in next((names for kind, names in LOWERINGS.items() if isinstance(stage, kind)), ()):
        try:
            module = import_module(f"dsl.lower.cute.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"dsl.lower.cute.{name}":
                raise
            continue
        plan = module.plan(program, stage)
        if plan is not None:
            return plan
    kind = type(stage).__name__.lower()
    raise Refusal("cute-stage", f"the cute back end has no kernel for {stage.name}, this kind of {kind}", "use `cpp`")


def memory_shape(t: TensorType) -> tuple[int, ...]:
    """The row-major shape of a tensor in the module: (b, h, w, c) for a channels-last one."""
    return tuple(t.shape[axis] for axis in t.memory_order)
