"""The plan of one gemm stage by CUTLASS 3.x, on sm_90a or sm_100a: what the template needs, decided and checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dsl.arch import DEFAULT
from dsl.ir import Acc, Call, DType, Gemm, GroupedGemm, Number, Program, TensorType, expressions, gemm_shape
from dsl.lower import Refusal
from dsl.lower.cpp.direct_reads import direct_tree, readable
from dsl.lower.cpp.epilogue import Leaf, Tree, plan, shared
from dsl.lower.cpp.gemm_epilogue import Output, folds, plan_output
from dsl.lower.cpp.names import aligned, identifier, storage
from dsl.lower.cpp.normalized import NormalizedGemm, Rows, plan_rows
from dsl.lower.cpp.product import Product3x
from dsl.rules.sm90 import TURNED_N

# compute -> (element types the operands may have in memory, element the collective builder is given).
# For tf32 the builder gets `float`, not `tfloat32_t`: then the TMA descriptor is of type TFLOAT32 and the copy into
# shared memory converts. With `tfloat32_t` the raw bits would reach the tensor core, which drops the low 13.
COMPUTE = {
    DType.TF32: (DType.F32, "float"),
    DType.F16: (DType.F16, "cutlass::half_t"),
    DType.BF16: (DType.BF16, "cutlass::bfloat16_t"),
    DType.E4M3: (DType.E4M3, "cutlass::float_e4m3_t"),
    DType.E5M2: (DType.E5M2, "cutlass::float_e5m2_t"),
    DType.I8: (DType.I8, "int8_t"),
}
BYTE = (DType.E4M3, DType.E5M2, DType.I8)

# Headers of a GEMM on sm_90a, and on sm_100a, whose epilogues have the same visitors.
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
    turned: bool = False  # D^T = B^T A^T: every m here is the program's n, and the result lies column-major
    pairs: bool = False  # columns 2j and 2j + 1 of the product are acc and acc2 of column j
    stored: bool = True  # the result leaves by TMA; else the compute node writes or reduces it
    sizes: str = ""  # of a grouped product: the tensor of the groups' rows
    groups: int = 0
    tokens: int = 0  # rows of a grouped product, where m counts whole tiles
    triangle: int = 0  # cluster tiles a side where only a triangle of them is computed; 0: all are
    upper: bool = False  # which one, as the program has it
    rows: Rows | None = None  # its rows are normalised before they are stored
    into: str = ""  # the tensor stored, where that is another stage's
    finish: Tree | None = None  # splits of K leave sums of their own, and a second kernel makes the result of them
    result: DType = DType.F32  # what it stores then
    arch: str = "sm_90a"
    kind: str = "gemm"
    template: str = "gemm_sm90.cu.j2"
    headers: tuple[str, ...] = CUTLASS_GEMM
    beside = ()  # no columns of a product are neighbours in memory that the compute node stores at once

    @property
    def shared(self) -> tuple[str, ...]:
        parts = [("node.cu.j2", self.tree.node), ("totals.cu.j2", self.tree.totals), ("grouped.cu.j2", self.grouped)]
        parts += [("triangle.cu.j2", self.triangle), ("normalized.cu.j2", self.rows)]
        parts.append(("splits.cu.j2", self.finish))
        return tuple(file for file, used in parts if used)

    @property
    def later_leaves(self) -> tuple[Leaf, ...]:
        """What is read once the product is whole, by neither visitor nor compute node."""
        return self.rows.leaves if self.rows else self.finish.direct if self.finish else ()

    @property
    def functions(self) -> tuple[str, ...]:
        later = self.rows or self.finish
        return (*self.tree.functions, *(later.functions if later else ()))

    @property
    def blackwell(self) -> bool:
        """sm_100a: one instruction serves one SM or two, accumulators lie in tensor memory."""
        return self.arch == "sm_100a"

    @property
    def grouped(self) -> bool:
        return bool(self.sizes)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The operands (its own order, turned or not), the result, and what the epilogue reads."""
        sizes = (self.sizes,) if self.sizes else ()
        return (
            self.a.name, self.b.name, *sizes, self.into or self.name, *self.tree.tensors,
            *(leaf.name for leaf in self.later_leaves),
        )  # fmt: skip

    @property
    def element_result(self) -> str:
        """C++ type of the result where the kernel stores f32 sums first."""
        return storage(self.result, self.name)

    @property
    def layout_d(self) -> str:
        return "ColumnMajor" if self.turned else "RowMajor"

    @property
    def pitch(self) -> str:
        """Strides of the result and of tensors like it along m and n, as CuTe spells them."""
        return "cute::Int<1>{}, int64_t(M)" if self.turned else "int64_t(N), cute::Int<1>{}"

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
        """Of each total: where its parts begin in the stage's workspace in bytes, parts a result, results a batch."""
        warps, at, found = 4 if self.schedule == "pingpong" else 8, self.groups_bytes, {}
        for total in self.tree.totals:
            by_row = (total.along == "n") != self.turned
            count = self.tiles[1] if by_row else self.tiles[0] * warps
            width = self.total_rows if by_row else self.total_columns
            found[total.name] = (at, count, width)
            at += -(-self.l * count * width * (8 if total.op == "LogSumExp" else 4) // 256) * 256
        return found

    @property
    def groups_bytes(self) -> int:
        return -(-self.tiles[0] * 16 // 256) * 256 if self.grouped else 0

    @property
    def own_bytes(self) -> int:
        """Bytes of workspace before what the kernel itself asks for."""
        end = self.groups_bytes
        for total, (at, count, width) in zip(self.tree.totals, self.scratch.values(), strict=True):
            end = at + -(-self.l * count * width * (8 if total.op == "LogSumExp" else 4) // 256) * 256
        return end

    @property
    def launches(self) -> int:
        return 1 + len(self.tree.totals) + self.grouped + bool(self.triangle) + bool(self.finish)

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
        """Kernel and epilogue schedule. Ping-pong's epilogue serves one warp group at a time."""
        if self.blackwell:
            sms = self.tile[0] // 128
            return f"KernelTmaWarpSpecialized{sms}SmSm100", f"TmaWarpSpecialized{sms}Sm"
        fast = "FP8FastAccum" if "float_e" in self.element else ""  # sums stay in the tensor core: 14 bits
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
        return f"Triangle<{tag}, {self.triangle}, {'true' if self.upper != self.turned else 'false'}>"

    @property
    def through_registers(self) -> bool:
        """tf32 whose operand is not k-major: the tensor core has no such layout, so it comes through registers."""
        return self.element == "float" and not (self.a.k_major and self.b.k_major) and not self.blackwell


def plan_gemm(program: Program, stage: Gemm, types: dict[str, TensorType]) -> GemmPlan:
    """Everything the template says about `stage`. Raises Refusal with what to write instead."""
    operand, element = checked(stage, types, program.arch)
    config, name = stage.config, identifier(stage.name)
    shape = gemm_shape(program, stage)
    l, m, n, k = shape.l, shape.m, shape.n, shape.k  # noqa: E741
    fold = l > 1 and folds(stage, types, l, m, n)
    if fold:
        l, m = 1, l * m  # noqa: E741 - one tall product: whole tiles across the batches
    a = _matrix(stage.a.name, types, m, k, not stage.a.transposed, "RowMajor", "ColumnMajor", 1 if fold else l)
    b = _matrix(stage.b.name, types, n, k, stage.b.transposed, "ColumnMajor", "RowMajor", l)
    blackwell = program.arch == "sm_100a"
    if blackwell and stage.pairs:
        raise Refusal(
            "cpp-sm100-pairs", "pairs of columns are written for sm_90a, not for sm_100a", "write arch sm_90a"
        )
    turned = element == "float" and a.k_major and not b.k_major and not blackwell
    if turned and stage.pairs:
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 of {stage.b.name} lying along n computes the transposed result, whose rows are no pairs of columns",
            f"store {stage.b.name} as [n, k] and read it with .T",
        )
    output = Output(l, m, n // 2 if stage.pairs else n, turned, stage.pairs, one_source=blackwell)
    tree, stored, store = plan_output(stage, types, output, fold)
    if blackwell and tree.totals:
        raise Refusal(
            "cpp-sm100-reduction",
            "rows and columns are reduced beside a product on sm_90a, not on sm_100a",
            f"store {name} whole, and write reduce({name}) as a stage of its own",
        )
    if stored and not aligned(n, store):
        raise Refusal(
            "cpp-alignment",
            f"the result has rows of {n * store.bits // 8:,} bytes; TMA writes rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // store.bits}",
        )
    tile, cluster, m0, n0 = config.tile, config.cluster, m, n
    if turned:
        a, b, m, n, tile, cluster = _turn(stage, a, b, m, n)
    if element == "float" and not a.k_major and not b.k_major and config.tile[2] != 32 and not blackwell:
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 with {stage.a.name}.T and {stage.b.name} both lying along their free axis is transposed in shared "
            f"memory 128 bytes of k at a time, and the tile has k {config.tile[2]}",
            f"write tile {config.tile[0]}x{config.tile[1]}x32",
        )
    finish, result = None, store
    if stored and config.scheduler.kind == "split_k" and _splits(stage, types, tree, element) and not blackwell:
        finish, store = direct_tree(shared(stage)[0], types, m0, n0), DType.F32
        tree = plan(Acc(), types, 1, m0, n0)
    side = 0 if finish or blackwell or not stored or tree.totals else triangle(stage, m, n, tile, cluster)
    return GemmPlan(
        name, l, m, n, k, a, b, element, 128 // operand.bits, store, tile, cluster, config.schedule,
        config.scheduler.kind != "persistent" and not finish, config.stages, tree,
        1 if side else whole_groups(m, n, tile, cluster, config.swizzle or 1),
        config.scheduler.splits if config.scheduler.kind == "split_k" else 1, turned, stage.pairs, stored,
        triangle=side, upper=bool(side) and stage.epilogue.fn == "triu", finish=finish, result=result,
        arch=program.arch or DEFAULT,
    )  # fmt: skip


def plan_normalized(program: Program, stage: NormalizedGemm, types: dict[str, TensorType]) -> GemmPlan:
    """As plan_gemm, of a product that is normalised in its registers."""
    plain = Gemm(stage.name, stage.a, stage.b, stage.config, store=stage.store, type=stage.type)
    plan = plan_gemm(program, plain, types)
    return dataclasses.replace(plan, name=identifier(stage.product), into=plan.name, rows=plan_rows(stage, types))


def plan_grouped(program: Program, stage: GroupedGemm, types: dict[str, TensorType]) -> GemmPlan:
    """As plan_gemm, for a product whose rows belong to several matrices.

    A group's rows begin anywhere, so a tile is placed by a table that a small kernel makes of the sizes: as many tiles
    as could be needed, those that are not needed empty. Rows leave one by one, as a tile may end inside the next group.
    """
    operand, element = checked(stage, types)
    config, name = stage.config, identifier(stage.name)
    (tokens, k), (groups, *_) = types[stage.a.name].shape, types[stage.b.name].shape
    n = types[stage.b.name].shape[1 if stage.b.transposed else 2]
    if stage.a.transposed or (element == "float" and not stage.b.transposed):
        side = stage.a if stage.a.transposed else stage.b
        raise Refusal(
            "cpp-grouped-layout",
            f"a grouped product in {config.compute.value} reads {side.name} along k, and it lies along its other axis",
            f"store {side.name} with k last",
        )
    if config.cluster[0] != 1:
        raise Refusal(
            "cpp-grouped-cluster",
            f"blocks of a cluster of {config.cluster[0]} along m share one matrix, and their rows may be of two groups",
            f"write cluster 1x{config.cluster[1]}x1",
        )
    if config.scheduler.kind != "persistent":
        raise Refusal("cpp-scheduler", "a grouped product is scheduled persistent", "write scheduler persistent")
    a = _matrix(stage.a.name, types, tokens, k, True, "RowMajor", "ColumnMajor", 1)
    b = _matrix(stage.b.name, types, n, k, stage.b.transposed, "ColumnMajor", "RowMajor", groups)
    tree, _, store = plan_output(stage, types, Output(1, tokens, n, direct=True), False)
    m = (tokens // config.tile[0] + min(groups, tokens)) * config.tile[0]
    return GemmPlan(
        name, 1, m, n, k, a, b, element, 128 // operand.bits, store, config.tile, config.cluster, config.schedule,
        False, config.stages, tree, whole_groups(m, n, config.tile, config.cluster, config.swizzle or 1), 1,
        stored=False, sizes=identifier(stage.sizes.name), groups=groups, tokens=tokens,
    )  # fmt: skip


def checked(stage: Gemm | GroupedGemm, types: dict[str, TensorType], arch: str | None = None) -> tuple[DType, str]:
    """The operands' element in memory and what the builder is given; raises Refusal."""
    config = stage.config
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages"):
        if getattr(config, clause) is None and not (clause == "schedule" and arch == "sm_100a"):
            raise Refusal(
                "cpp-unresolved",
                f"stage {stage.name} leaves {clause} to auto",
                "resolve the program first (dsl.resolve)",
            )
    if config.compute not in COMPUTE:
        raise Refusal(
            "cpp-compute",
            f"the cpp back end does not multiply in {config.compute.value} on sm_90a's tensor cores",
            "write compute tf32 for f32 operands, or transform them to f16",
        )
    if config.tile[0] == 192 and arch in (None, "sm_90a"):
        # CUTLASS stores a cooperative tile by pieces of 128 rows, and asserts that they divide it.
        raise Refusal(
            "cpp-config",
            f"stage {stage.name}: a tile of 192 rows is more than the cpp back end takes",
            "write tile M 128 or 256, or leave the stage to the `cute` back end",
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
    if operand in BYTE and (stage.a.transposed or not stage.b.transposed):
        side = stage.a if stage.a.transposed else stage.b
        raise Refusal(
            "cpp-operand",
            f"operands of one byte are read along k, and {side.name} lies along its other axis",
            f"store {side.name} with k last, and read the second operand with .T",
        )
    if config.schedule == "pingpong" and config.scheduler.kind != "persistent":
        raise Refusal(
            "cpp-scheduler",
            f"scheduler {config.scheduler.kind} reduces across whole blocks; pingpong splits a block in two",
            "write schedule cooperative, or scheduler persistent",
        )
    return operand, element


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


def _splits(stage: Gemm, types: dict[str, TensorType], tree: Tree, element: str) -> bool:
    """Whether splits of K leave their sums side by side, rather than add them up one after the other as CUTLASS's
    do (64 of them: 0.2 ms): one product, whose result nothing else is made of."""
    if stage.also or stage.pairs or tree.totals or len(stage.type.shape) != 2 or element == "int8_t":
        return False
    return readable(expressions(stage), types, *stage.type.shape)


def triangle(stage: Gemm, m: int, n: int, tile: tuple, cluster: tuple) -> int:
    """Cluster tiles a side where the epilogue keeps one triangle of a square result and these tiles cover it in whole
    squares; 0 where every tile must be computed. See templates/triangle.cu.j2."""
    e = stage.epilogue
    if not isinstance(e, Call) or e.fn not in ("triu", "tril") or e.args[1:] not in ((), (Number(0.0),)):
        return 0
    square = tile[0] * cluster[0]
    if stage.also or stage.pairs or m != n or tile[1] * cluster[1] != square or m % (2 * square):
        return 0
    return m // square


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
