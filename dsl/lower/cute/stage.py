"""What one stage adds to the generated module, and who writes it: the table from stage kinds to modules.

A lowering module has `plan(program, stage) -> StagePlan | None`: None when the stage is not its kind of work (the next
module of the row is asked), a Refusal where no module here could do it. Program and stage come renamed: every name in
them may stand in Python. Modules are imported when first asked for, so that rooms build apart.
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

# Stage kind -> modules of dsl.lower.cute, the first that takes the stage writes it.
LOWERINGS: dict[type, tuple[str, ...]] = {
    ir.Gemm: ("gemm.gemm_text",),
    ir.GroupedGemm: ("gemm.gemm_text",),
    ir.Conv: ("conv.direct", "conv.tensor_core_conv"),  # direct: depthwise, few channels, compute f32
    ir.Transform: ("transform",),
    ir.Map: ("pointwise",),
    ir.Reduce: ("reduce.reduction",),
    ir.Normalize: ("reduce.normalize",),
    ir.Pool: ("reduce.pool",),
}


class Text:
    """Lines with marks: which (stage, clause) decides which generated lines."""

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
        """Mark everything from line `first` to the last."""
        self.marks.setdefault(mark, []).append((first, len(self.lines)))

    def include(self, other: Text) -> None:
        """The lines and marks of another text, below these."""
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
    """Text that stages share (a class, a kernel): emitted once a module, in the order of `rank`, then of first use."""

    text: str
    rank: int = 50


@dataclass(frozen=True)
class Scratch:
    """Memory that a stage needs for itself: `<stage>_<what>` in the module, allocated once by `load`."""

    what: str
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StagePlan:
    """Everything the module says of one stage.

    text       defines `<STAGE>` (the stage's name in capitals): an object with `plan(*arguments)`, which compiles with
               no GPU and launches nothing, and `__call__(*arguments)`, which launches on the current stream.
               Its marks name the clause alone: ("", clause).
    arguments  the text between the brackets of the call, over names of tensors.
    tensors    the names that `arguments` uses, in order of use.
    reads      clauses that decide the arguments (for the line map).
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
    found: dict[str, TensorType | None] = {p.name: p.type for p in program.params}
    for s in program.stages:
        found[s.name] = s.type
        found.update({a.name: a.type for a in s.also})
    return found


def plan_stage(program: Program, stage: Stage) -> StagePlan:
    """The plan of the first module that takes the stage. Raises Refusal."""
    for name in LOWERINGS.get(type(stage), ()):
        try:
            module = import_module(f"dsl.lower.cute.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"dsl.lower.cute.{name}":
                raise
            continue
        found = module.plan(program, stage)
        if found is not None:
            return found
    what = type(stage).__name__.lower()
    raise Refusal("cute-stage", f"the cute back end does not write {stage.name}, a {what} like this", "use `cpp`")


def memory_shape(t: TensorType) -> tuple[int, ...]:
    """The shape of a tensor as the module holds it: row-major, so (b, h, w, c) for a channels-last one."""
    return tuple(t.shape[axis] for axis in t.memory_order)
