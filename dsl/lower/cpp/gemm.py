"""The plan of one gemm stage on sm_90a: what the template needs, decided and checked here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dsl.ir import Call, DType, Expr, Gemm, Load, Program, TensorType, gemm_shape
from dsl.lower import Refusal
from dsl.lower.cpp.epilogue import Tree, plan
from dsl.lower.cpp.names import aligned, identifier, storage
from dsl.rules.sm90 import TURNED_N

# compute -> (element types the operands may have in memory, element the collective builder is given).
# For tf32 the builder gets `float`, not `tfloat32_t`: then the TMA descriptor is of type TFLOAT32 and the copy into
# shared memory converts. With `tfloat32_t` the raw bits would reach the tensor core, which drops the low 13.
COMPUTE = {
    DType.TF32: (DType.F32, "float"),
    DType.F16: (DType.F16, "cutlass::half_t"),
    DType.BF16: (DType.BF16, "cutlass::bfloat16_t"),
}

# Headers of a GEMM on sm_90a.
CUTLASS_GEMM = (
    "cutlass/cutlass.h",
    "cutlass/device_kernel.h",
    "cutlass/numeric_types.h",
    "cute/tensor.hpp",
    "cutlass/epilogue/collective/collective_builder.hpp",
    "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp",
    "cutlass/gemm/collective/collective_builder.hpp",
    "cutlass/gemm/kernel/gemm_universal.hpp",
    "cutlass/gemm/kernel/tile_scheduler.hpp",
)


@dataclass(frozen=True)
class Matrix:
    """An operand in memory: its layout tag as CUTLASS names it, leading dimension and batch stride in elements."""

    name: str
    tag: str
    stride: str
    k_major: bool


@dataclass(frozen=True)
class GemmPlan:
    name: str
    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    element: str
    alignment: int
    store: DType
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    schedule: str
    stream_k: bool
    stages: int
    tree: Tree
    swizzle: int
    splits: int
    turned: bool = False  # D^T = B^T A^T: every m here is the program's n, and the result lies column-major
    kind: str = "gemm"
    template: str = "gemm_sm90.cu.j2"
    headers: tuple[str, ...] = CUTLASS_GEMM

    @property
    def shared(self) -> tuple[str, ...]:
        return ("node.cu.j2",) if self.tree.node else ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """The operands (its own order, turned or not), the result, and what the epilogue reads."""
        return (self.a.name, self.b.name, self.name, *self.tree.tensors)

    @property
    def functions(self) -> tuple[str, ...]:
        return self.tree.functions

    @property
    def launch(self) -> tuple[int, ...]:
        return (self.swizzle, self.splits)

    @property
    def aux(self) -> bool:
        """Whether it reads a second full tensor."""
        return any(leaf.kind == "aux" for leaf in self.tree.leaves)

    @property
    def element_d(self) -> str:
        return storage(self.store, self.name)

    @property
    def alignment_d(self) -> int:
        return 128 // self.store.bits

    @property
    def layout_d(self) -> str:
        return "ColumnMajor" if self.turned else "RowMajor"

    @property
    def pitch(self) -> str:
        """Strides of the result and of tensors like it along m and n, as CuTe spells them."""
        return "cute::Int<1>{}, int64_t(M)" if self.turned else "int64_t(N), cute::Int<1>{}"

    @property
    def schedule_tags(self) -> tuple[str, str]:
        """Kernel and epilogue schedule. Ping-pong's epilogue serves one warp group at a time."""
        if self.schedule == "pingpong":
            return "KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized"
        return "KernelTmaWarpSpecializedCooperative", "TmaWarpSpecializedCooperative"

    @property
    def through_registers(self) -> bool:
        """tf32 whose operand is not k-major: the tensor core has no such layout, so it comes through registers."""
        return self.element == "float" and not (self.a.k_major and self.b.k_major)


def plan_gemm(program: Program, stage: Gemm, types: dict[str, TensorType]) -> GemmPlan:
    """Everything the template says about `stage`. Raises Refusal with what to write instead."""
    config, name = stage.config, identifier(stage.name)
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages"):
        if getattr(config, clause) is None:
            raise Refusal(
                "cpp-unresolved", f"stage {name} leaves {clause} to auto", "resolve the program first (dsl.resolve)"
            )
    if config.compute not in COMPUTE:
        raise Refusal(
            "cpp-compute",
            f"the cpp back end multiplies in tf32, f16 or bf16, not {config.compute.value}",
            "write compute tf32 for f32 operands, or transform them to f16",
        )
    operand, element = COMPUTE[config.compute]
    for side in (stage.a, stage.b):
        have = types[side.name].dtype
        if have is not operand:
            raise Refusal(
                "cpp-operand",
                f"compute {config.compute.value} reads {operand.value} operands, and {side.name} is {have.value}",
                f"{side.name}_c = transform({side.name}) {{ to {operand.value} }}",
            )
    if config.schedule == "pingpong" and config.scheduler.kind != "persistent":
        raise Refusal(
            "cpp-scheduler",
            f"scheduler {config.scheduler.kind} reduces across whole blocks; pingpong splits a block in two",
            "write schedule cooperative, or scheduler persistent",
        )
    shape = gemm_shape(program, stage)
    l, m, n, k = shape.l, shape.m, shape.n, shape.k  # noqa: E741
    store = stage.store or types[stage.a.name].dtype
    storage(store, name)
    if l > 1 and _folds(stage, types, l, m, n):
        l, m = 1, l * m  # noqa: E741 - one tall product: whole tiles across the batches
        fold = True
    else:
        fold = False
    a = _matrix(stage.a.name, types, m, k, not stage.a.transposed, "RowMajor", "ColumnMajor", 1 if fold else l)
    b = _matrix(stage.b.name, types, n, k, stage.b.transposed, "ColumnMajor", "RowMajor", l)
    if not aligned(n, store):
        raise Refusal(
            "cpp-alignment",
            f"the result has rows of {n * store.bits // 8:,} bytes; TMA writes rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // store.bits}",
        )
    turned = element == "float" and a.k_major and not b.k_major
    tree = plan(_fold_axes(stage.epilogue) if fold else stage.epilogue, types, l, m, n, turned)
    tile, cluster = config.tile, config.cluster
    if turned:
        a, b, m, n, tile, cluster = _turn(stage, a, b, m, n)
    if element == "float" and not a.k_major and not b.k_major and config.tile[2] != 32:
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 with {stage.a.name}.T and {stage.b.name} both lying along their free axis is transposed in shared "
            f"memory 128 bytes of k at a time, and the tile has k {config.tile[2]}",
            f"write tile {config.tile[0]}x{config.tile[1]}x32",
        )
    return GemmPlan(
        name, l, m, n, k, a, b, element, 128 // operand.bits, store, tile, cluster, config.schedule,
        config.scheduler.kind != "persistent", config.stages, tree,
        whole_groups(m, n, tile, cluster, config.swizzle or 1),
        config.scheduler.splits if config.scheduler.kind == "split_k" else 1, turned,
    )  # fmt: skip


def whole_groups(m: int, n: int, tile: tuple, cluster: tuple, most: int) -> int:
    """The largest group of at most `most` clusters, along m and n, that adds no tile to the launch.

    CUTLASS rounds the grid up to whole groups on both sides and computes the tiles beyond the edge like any other:
    groups of 8 clusters of 2 make 16 rows out of 8, twice the work (0.376 ms where 0.188 were due, on one H200).
    """
    rows, columns = (-(-size // (t * c)) * c for size, t, c in zip((m, n), tile, cluster, strict=False))
    for group in (8, 4, 2):
        whole = rows % (group * cluster[0]) == 0 and columns % (group * cluster[1]) == 0
        used = min(rows, columns) >= {8: 6, 4: 3, 2: 2}[group]  # below, CUTLASS takes a smaller group itself
        if group <= most and whole and used:
            return group
    return 1


def _turn(stage: Gemm, a: Matrix, b: Matrix, m: int, n: int) -> tuple:
    """tf32 `x @ w`: the product of the transposes, as the tensor core reads tf32 along k alone.

    B must come through registers, which is A's way. CUTLASS's builder turns the mainloop by itself, but leaves the
    result's strides and the epilogue's vectors to the caller; here all of it is turned, and the tile and the cluster
    with it, so they keep the program's meaning.
    """
    config = stage.config
    allowed = TURNED_N[config.schedule]
    if config.tile[1] not in allowed:
        fit = min((n for n in allowed if n >= config.tile[1]), default=allowed[-1])
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 of {stage.b.name} lying along n computes the transposed result, so a {config.schedule} tile has "
            f"n {' or '.join(map(str, allowed))}, and this one has {config.tile[1]}",
            f"write tile {config.tile[0]}x{fit}x{config.tile[2]}",
        )
    turned = {"RowMajor": "ColumnMajor", "ColumnMajor": "RowMajor"}
    first = dataclasses.replace(b, tag=turned[b.tag])
    second = dataclasses.replace(a, tag=turned[a.tag])
    tile = (config.tile[1], config.tile[0], config.tile[2])
    cluster = (config.cluster[1], config.cluster[0], config.cluster[2])
    return first, second, n, m, tile, cluster


def _matrix(name: str, types: dict, free: int, k: int, k_major: bool, tag_k: str, tag_free: str, l: int) -> Matrix:  # noqa: E741
    """An operand of `free` (m or n) by k. The stride is CuTe's (free, k, l); 0 in l for one that all batches share."""
    kind = types[name]
    identifier(name)
    if not aligned(k if k_major else free, kind.dtype):
        raise Refusal(
            "cpp-alignment",
            f"rows of {name} are {kind.shape[-1] * kind.dtype.bits // 8:,} bytes; TMA reads rows of a multiple of 16",
            f"make its last axis a multiple of {128 // kind.dtype.bits}",
        )
    batch = free * k if l > 1 and kind.elements > free * k else 0
    if k_major:
        return Matrix(name, tag_k, f"cute::make_stride(int64_t({k}), cute::Int<1>{{}}, int64_t({batch}))", True)
    return Matrix(name, tag_free, f"cute::make_stride(cute::Int<1>{{}}, int64_t({free}), int64_t({batch}))", False)


def _folds(stage: Gemm, types: dict[str, TensorType], l: int, m: int, n: int) -> bool:  # noqa: E741
    """Whether batches of A against one B are one product of l*m rows: nothing may depend on m or l alone."""
    if len(types[stage.b.name].shape) > 2 or stage.a.transposed:
        return False
    for load in _loads(stage.epilogue):
        elements, inner = types[load.name].elements, set(load.axes) - {"l"}
        once = elements == 1 or (inner == {"n"} and elements == n) or (inner == {"m", "n"} and elements == l * m * n)
        if not once:
            return False
    return True


def _loads(expr: Expr):
    seen, stack = set(), [expr]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            yield node
        elif isinstance(node, Call):
            stack.extend(node.args)


def _fold_axes(expr: Expr) -> Expr:
    """`r[l, m, n]` reads as `r[m, n]` of the tall product. Shared subexpressions stay shared."""
    done: dict[int, Expr] = {}

    def walk(node: Expr) -> Expr:
        if id(node) not in done:
            if isinstance(node, Load):
                done[id(node)] = Load(node.name, tuple(a for a in node.axes if a in ("m", "n")))
            elif isinstance(node, Call):
                done[id(node)] = Call(node.fn, tuple(walk(arg) for arg in node.args))
            else:
                done[id(node)] = node
        return done[id(node)]

    return walk(expr)
