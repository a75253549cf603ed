"""The plan of one gemm stage by CUTLASS 3.x, on sm_90a or sm_100a."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.arch import DEFAULT
from dsl.ir import Acc, DType, Gemm, Program, TensorType, gemm_shape
from dsl.lower import Refusal
from dsl.lower.cpp.direct_reads import direct_tree
from dsl.lower.cpp.epilogue import Leaf, Tree, plan, shared
from dsl.lower.cpp.gemm.gemm_epilogue import Output, folds, plan_output
from dsl.lower.cpp.gemm.gemm_operands import Matrix, checked, matrix, turn
from dsl.lower.cpp.gemm.gemm_schedule import AUTO, raster, sums_apart, triangle, whole_groups
from dsl.lower.cpp.gemm.normalized import Rows
from dsl.lower.cpp.gemm.product import Product3x
from dsl.lower.cpp.names import aligned, identifier, storage

# Headers of a GEMM on sm_90a and on sm_100a, whose epilogues use the same visitors.
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
class GemmPlan(Product3x):
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
    transposed_result: bool = False  # D^T = B^T A^T: m here is the program's n, and the result is column-major
    pairs: bool = False  # columns 2j and 2j + 1 of the product are acc and acc2 of column j
    stored: bool = True  # TMA stores the result; else the compute node writes or reduces it
    sizes: str = ""  # of a grouped product: the tensor with the rows of each group
    groups: int = 0
    tokens: int = 0  # rows of a grouped product, whose m counts whole tiles
    raster: int = AUTO  # the order of the tiles, in the kernel's m and n
    triangle: int = 0  # cluster tiles along a side if only one triangle of them is computed; 0: all are
    upper: bool = False  # the upper triangle, in the program's rows and columns
    rows: Rows | None = None  # the norm that is applied to its rows before they are stored
    into: str = ""  # the stored tensor, if it is that of another stage
    finish: Tree | None = None  # splits of K store separate sums, and a second kernel computes the result from them
    result: DType = DType.F32  # the element type that the second kernel stores
    arch: str = "sm_90a"
    kind: str = "gemm"
    template: str = "gemm_sm90.cu.j2"
    headers: tuple[str, ...] = CUTLASS_GEMM
    beside = ()  # only convolutions have phases that share a tile

    @property
    def shared(self) -> tuple[str, ...]:
        parts = [("node.cu.j2", self.tree.node), ("totals.cu.j2", self.tree.totals), ("grouped.cu.j2", self.grouped)]
        parts += [("triangle.cu.j2", self.triangle), ("normalized.cu.j2", self.rows)]
        parts.append(("splits.cu.j2", self.finish))
        return tuple(file for file, used in parts if used)

    @property
    def later_leaves(self) -> tuple[Leaf, ...]:
        """The tensors that are read after the epilogue, by the norm or by the second kernel."""
        return self.rows.leaves if self.rows else self.finish.direct if self.finish else ()

    @property
    def functions(self) -> tuple[str, ...]:
        later = self.rows or self.finish
        return (*self.tree.functions, *(later.functions if later else ()))

    @property
    def blackwell(self) -> bool:
        """Return True for sm_100a: one instruction uses one SM or two, and accumulators are in tensor memory."""
        return self.arch == "sm_100a"

    @property
    def grouped(self) -> bool:
        return bool(self.sizes)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The operands (in the kernel's order), the result, and the tensors that the epilogue reads."""
        sizes = (self.sizes,) if self.sizes else ()
        return (
            self.a.name, self.b.name, *sizes, self.into or self.name, *self.tree.tensors,
            *(leaf.name for leaf in self.later_leaves),
        )  # fmt: skip

    @property
    def element_result(self) -> str:
        """C++ type of the result, if the kernel stores f32 sums first."""
        return storage(self.result, self.name)

    @property
    def layout_d(self) -> str:
        return "ColumnMajor" if self.transposed_result else "RowMajor"

    @property
    def pitch(self) -> str:
        """CuTe strides of the result, and of tensors of its shape, along m and n."""
        return "cute::Int<1>{}, int64_t(M)" if self.transposed_result else "int64_t(N), cute::Int<1>{}"

    @property
    def accumulator(self) -> str:
        return "int32_t" if self.element == "int8_t" else "float"

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of the kernel along its m and n."""
        return -(-self.m // self.tile[0]), -(-self.n // self.tile[1])

    @property
    def total_rows(self) -> int:
        return self.tokens or self.m

    @property
    def total_columns(self) -> int:
        return self.n // 2 if self.pairs else self.n

    @property
    def scratch(self) -> dict[str, tuple[int, int, int]]:
        """For each total: offset of its parts in the stage's workspace in bytes, parts a result, results a batch."""
        warps, at, parts = 4 if self.schedule == "pingpong" else 8, self.groups_bytes, {}
        for total in self.tree.totals:
            by_row = (total.along == "n") != self.transposed_result
            count = self.tiles[1] if by_row else self.tiles[0] * warps
            width = self.total_rows if by_row else self.total_columns
            parts[total.name] = (at, count, width)
            at += -(-self.l * count * width * (8 if total.op == "LogSumExp" else 4) // 256) * 256
        return parts

    @property
    def groups_bytes(self) -> int:
        return -(-self.tiles[0] * 16 // 256) * 256 if self.grouped else 0

    @property
    def own_bytes(self) -> int:
        """Bytes of workspace before CUTLASS's own workspace."""
        end = self.groups_bytes
        for total, (at, count, width) in zip(self.tree.totals, self.scratch.values(), strict=True):
            end = at + -(-self.l * count * width * (8 if total.op == "LogSumExp" else 4) // 256) * 256
        return end

    @property
    def launch(self) -> tuple[int, ...]:
        return (self.swizzle | self.raster << 4, self.splits)

    @property
    def own_arguments(self) -> tuple[str, ...]:
        lines = [f"void* totals[{len(self.tree.totals)}];"] if self.tree.totals else []
        return (*lines, "GroupTile const* table;") if self.grouped else tuple(lines)

    @property
    def own_values(self) -> tuple[str, ...]:
        starts = ", ".join(f"own + {at}" for at, _, _ in self.scratch.values())
        values = ["{" + starts + "}"] if self.tree.totals else []
        return (*values, "reinterpret_cast<GroupTile const*>(own)") if self.grouped else tuple(values)

    @property
    def schedule_tags(self) -> tuple[str, str]:
        """CUTLASS's tags of the kernel's and the epilogue's schedule."""
        if self.blackwell:
            sms = self.tile[0] // 128
            return f"KernelTmaWarpSpecialized{sms}SmSm100", f"TmaWarpSpecialized{sms}Sm"
        fast = "FP8FastAccum" if "float_e" in self.element else ""  # accumulates in the tensor core, with 14 bits
        if self.schedule == "pingpong":
            return f"KernelTmaWarpSpecializedPingpong{fast}", "TmaWarpSpecialized"
        return f"KernelTmaWarpSpecializedCooperative{fast}", "TmaWarpSpecializedCooperative"

    @property
    def scheduler_tag(self) -> str:
        tag = "cutlass::gemm::" + ("StreamKScheduler" if self.stream_k else "PersistentScheduler")
        if self.finish:
            return f"Splits<{tag}, {-(-self.k // self.tile[2])}>"
        if not self.triangle:
            return tag
        return f"Triangle<{tag}, {self.triangle}, {'true' if self.upper != self.transposed_result else 'false'}>"

    @property
    def through_registers(self) -> bool:
        """Return True for tf32 with an operand that is not k-major, which goes through registers for wgmma."""
        return self.element == "float" and not (self.a.k_major and self.b.k_major) and not self.blackwell


def plan_gemm(program: Program, stage: Gemm, types: dict[str, TensorType]) -> GemmPlan:
    """The plan of a gemm stage. Raises Refusal with what to write instead."""
    operand, element = checked(stage, types, program.arch)
    config, name = stage.config, identifier(stage.name)
    shape = gemm_shape(program, stage)
    l, m, n, k = shape.l, shape.m, shape.n, shape.k  # noqa: E741
    fold = l > 1 and folds(stage, types, l, m, n)
    if fold:
        l, m = 1, l * m  # noqa: E741 - one tall product: whole tiles across the batches
    a = matrix(stage.a.name, types, m, k, not stage.a.transposed, "RowMajor", "ColumnMajor", 1 if fold else l)
    b = matrix(stage.b.name, types, n, k, stage.b.transposed, "ColumnMajor", "RowMajor", l)
    blackwell = program.arch == "sm_100a"
    if blackwell and stage.pairs:
        raise Refusal(
            "cpp-sm100-pairs", "pairs of columns are written for sm_90a, not for sm_100a", "write arch sm_90a"
        )
    transposed_result = element == "float" and a.k_major and not b.k_major and not blackwell
    if transposed_result and stage.pairs:
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 with {stage.b.name} contiguous along n computes the transposed result, without pairs of columns",
            f"store {stage.b.name} as [n, k] and read it with .T",
        )
    output = Output(l, m, n // 2 if stage.pairs else n, transposed_result, stage.pairs, one_source=blackwell)
    tree, stored, store = plan_output(stage, types, output, fold)
    if blackwell and tree.totals:
        raise Refusal(
            "cpp-sm100-reduction",
            "only products on sm_90a can reduce rows and columns in the same launch, not on sm_100a",
            f"store {name}, and write reduce({name}) as a stage of its own",
        )
    if stored and not aligned(n, store):
        raise Refusal(
            "cpp-alignment",
            f"the result has rows of {n * store.bits // 8:,} bytes; TMA writes rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // store.bits}",
        )
    tile, cluster, m0, n0 = config.tile, config.cluster, m, n
    if transposed_result:
        a, b, m, n, tile, cluster = turn(stage, a, b, m, n)
    if element == "float" and not a.k_major and not b.k_major and config.tile[2] != 32 and not blackwell:
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 with {stage.a.name}.T and {stage.b.name} both contiguous along m and n is transposed in shared "
            f"memory 128 bytes of k at a time, and the tile has k {config.tile[2]}",
            f"write tile {config.tile[0]}x{config.tile[1]}x32",
        )
    finish, result = None, store
    if stored and config.scheduler.kind == "split_k" and sums_apart(stage, types, tree, element) and not blackwell:
        finish, store = direct_tree(shared(stage)[0], types, m0, n0), DType.F32
        tree = plan(Acc(), types, 1, m0, n0)
    side = 0 if finish or blackwell or not stored or tree.totals else triangle(stage, m, n, tile, cluster)
    return GemmPlan(
        name, l, m, n, k, a, b, element, 128 // operand.bits, store, tile, cluster, config.schedule,
        config.scheduler.kind != "persistent" and not finish, config.stages, tree,
        1 if side else whole_groups(m, n, tile, cluster, config.swizzle or 1),
        config.scheduler.splits if config.scheduler.kind == "split_k" else 1, transposed_result, stage.pairs, stored,
        raster=AUTO if side or finish else raster(n0, k, operand.bits, transposed_result, l > 1),
        triangle=side, upper=bool(side) and stage.epilogue.fn == "triu", finish=finish, result=result,
        arch=program.arch or DEFAULT,
    )  # fmt: skip
