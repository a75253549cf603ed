"""The plan of a product by CUTLASS 2.x: `compute f32` on every architecture, and the tensor cores of sm_80 and sm_89.

CUTLASS provides the mainloop and the exchange of accumulators. The epilogue is one generated function over runs of
neighbouring columns (templates/product_2x.cu.j2), so the rows of a result may have any length. The splits of `split_k`
store their sums in the workspace, and a second kernel adds them in a fixed order, so results are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import DType, Gemm, Load, Program, TensorType, gemm_shape
from dsl.lower import Refusal
from dsl.lower.cpp.epilogue import Leaf, Output, Tree, Write, build, leaf, reduction, shared
from dsl.lower.cpp.gemm.gemm_epilogue import folds
from dsl.lower.cpp.gemm.gemm_operands import check_operands
from dsl.lower.cpp.gemm.product import Product
from dsl.lower.cpp.names import aligned, identifier, storage

HEADERS = (
    "cutlass/cutlass.h",
    "cutlass/numeric_types.h",
    "cutlass/device_kernel.h",
    "cutlass/numeric_conversion.h",
    "cutlass/gemm/kernel/default_gemm.h",
    "cutlass/epilogue/threadblock/epilogue.h",
    "cutlass/epilogue/thread/linear_combination.h",
)

# compute -> operands in memory, their C++ type, K of one instruction of m 16 x n 8.
TENSOR = {
    DType.TF32: (DType.F32, "float", 8),
    DType.F16: (DType.F16, "cutlass::half_t", 16),
    DType.BF16: (DType.BF16, "cutlass::bfloat16_t", 16),
    DType.I8: (DType.I8, "int8_t", 32),
    DType.E4M3: (DType.E4M3, "cutlass::float_e4m3_t", 32),
    DType.E5M2: (DType.E5M2, "cutlass::float_e5m2_t", 32),
}
FP8 = (DType.E4M3, DType.E5M2)

# Warps along m and n of each tile, as in CUTLASS's generator.
WARPS = {
    (64, 64): (2, 2), (64, 128): (2, 2), (128, 64): (2, 2), (128, 128): (2, 2), (64, 256): (1, 4), (256, 64): (4, 1),
    (128, 256): (2, 4), (256, 128): (4, 2),
}  # fmt: skip
WARPS_SIMT = {
    (64, 64): (2, 1), (64, 128): (2, 2), (128, 64): (2, 2), (128, 128): (4, 2), (128, 256): (2, 4), (256, 128): (4, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """An operand: its tensor, CUTLASS's layout tag and leading dimension, and elements from batch to batch."""

    name: str
    tag: str
    stride: int
    batch: int


@dataclass(frozen=True)
class Gemm2xPlan(Product):
    name: str
    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    element: str
    accumulator: str
    operator_class: str  # TensorOp | Simt
    generation: str  # CUTLASS's tag of the instruction's architecture
    operation: str
    instruction: tuple[int, int, int]
    alignment: int
    width: int
    tile: tuple[int, int, int]
    warp: tuple[int, int, int]
    stages: int
    tree: Tree
    written: tuple[Output, ...]
    swizzle: int
    splits: int
    pairs: bool
    kind: str = "gemm"
    template: str = "gemm_2x.cu.j2"
    headers: tuple[str, ...] = HEADERS
    shared: tuple[str, ...] = ("product_2x.cu.j2",)

    @property
    def columns(self) -> int:
        return self.n // 2 if self.pairs else self.n

    @property
    def a_batch(self) -> int:
        return self.a.batch

    @property
    def b_batch(self) -> int:
        return self.b.batch

    @property
    def read(self) -> tuple[Leaf, ...]:
        return tuple(x for x in self.tree.leaves if x.kind != "acc")

    @property
    def tensors(self) -> tuple[str, ...]:
        return (self.a.name, self.b.name, self.name, *(x.name for x in self.read), *(x.name for x in self.written[1:]))


def plan_gemm_2x(program: Program, stage: Gemm, types: dict[str, TensorType]) -> Gemm2xPlan:
    """The plan of a gemm stage. Raises Refusal with what to write instead."""
    config, name = stage.config, identifier(stage.name)
    for clause in ("compute", "tile", "scheduler", "stages"):
        if getattr(config, clause) is None:
            raise Refusal(
                "cpp-unresolved", f"stage {name} leaves {clause} to auto", "resolve the program first (dsl.resolve)"
            )
    simt = config.compute is DType.F32
    memory, element, depth = (DType.F32, "float", 1) if simt else TENSOR[config.compute]
    check_operands(stage, types, memory)
    warps = (WARPS_SIMT if simt else WARPS).get(config.tile[:2])
    if warps is None or config.scheduler.kind == "stream_k":
        clause_text = f"tile {config.tile[0]}x{config.tile[1]}" if warps is None else "scheduler stream_k"
        raise Refusal("cpp-2x-configuration", f"CUTLASS 2.x has no {clause_text} here", "leave it to auto")
    shape = gemm_shape(program, stage)
    l, m, n, k = shape.l, shape.m, shape.n, shape.k  # noqa: E741
    fold = l > 1 and folds(stage, types, l, m, n)
    if fold:
        l, m = 1, l * m  # noqa: E741 - one tall product: whole tiles across the batches
    a = _matrix(stage.a.name, types, m, k, not stage.a.transposed, ("RowMajor", "ColumnMajor"), 1 if fold else l, simt)
    b = _matrix(stage.b.name, types, n, k, stage.b.transposed, ("ColumnMajor", "RowMajor"), l, simt)
    width = 1 if simt else next(v for v in (4, 2, 1) if n % v == 0)
    if stage.pairs and width == 1:
        raise Refusal("cpp-2x-pairs", "compute f32 has single columns in a thread, not pairs", "write compute tf32")
    tree, written = _epilogue(stage, types, l, m, n // 2 if stage.pairs else n)
    fp8 = config.compute in FP8
    return Gemm2xPlan(
        name, l, m, n, k, a, b, element, "int32_t" if config.compute is DType.I8 else "float",
        "Simt" if simt else "TensorOp", "Sm89" if fp8 else "Sm80",
        "OpMultiplyAddSaturate" if config.compute is DType.I8 else "OpMultiplyAdd",
        (1, 1, 1) if simt else (16, 8, depth), 1 if simt else 128 // memory.bits, width, config.tile,
        (config.tile[0] // warps[0], config.tile[1] // warps[1], config.tile[2]), config.stages, tree, written,
        config.swizzle or 1, config.scheduler.splits if config.scheduler.kind == "split_k" else 1, stage.pairs,
    )  # fmt: skip


def _matrix(
    name: str,
    types: dict,
    free: int,
    k: int,
    k_major: bool,
    tags: tuple[str, str],
    l: int,  # noqa: E741
    any_row: bool,
):
    """An operand of `free` (m or n) by k. `tags`: its layout if k is contiguous, and if the other axis is."""
    kind = types[identifier(name)]
    row = k if k_major else free
    if not any_row and not aligned(row, kind.dtype):
        raise Refusal(
            "cpp-alignment",
            f"rows of {name} are {row * kind.dtype.bits // 8:,} bytes; cp.async reads 16 at a time",
            f"make its last axis a multiple of {128 // kind.dtype.bits}",
        )
    return Matrix(name, tags[0 if k_major else 1], row, free * k if l > 1 and kind.elements > free * k else 0)


def _epilogue(stage: Gemm, types: dict, l: int, m: int, n: int) -> tuple[Tree, tuple[Output, ...]]:  # noqa: E741
    """The expressions as C++, and every tensor that is written, the stage's result first."""
    main, also = shared(stage)
    for expr in (main, *also):
        if reduction(expr):
            raise Refusal(
                "cpp-2x-reduction",
                f"{stage.name} reduces rows or columns in its epilogue; CUTLASS 2.x kernels cannot do that",
                f"store {stage.name}, and write reduce({stage.name}) as a stage of its own",
            )
    dtype = stage.type.dtype if stage.type else stage.store or types[stage.a.name].dtype

    def fetch(load: Load, have_source: bool) -> Leaf:
        fetched = leaf(load, types, l, m, n, have_source, False, by_tma=False)
        if fetched.kind in ("source", "aux"):
            return Leaf("full", fetched.name, fetched.dtype, fetched.batch)
        return fetched

    writes = [
        Write(identifier(x.name), x.type.dtype if x.type else dtype, "", e)
        for x, e in zip(stage.also, also, strict=True)
    ]
    tree = build(main, fetch, tuple(writes))
    storage(dtype, stage.name)
    return tree, (Output(identifier(stage.name), dtype, "", tree.value), *tree.outputs)
