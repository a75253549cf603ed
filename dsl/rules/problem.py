"""The problem that a collective stage poses to the rules, and the type of a broken rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace

from dsl.arch import ARCHS, COMPUTE_FOR, DEFAULT, Arch
from dsl.ir import (
    NCHW,
    Call,
    Collective,
    Config,
    Conv,
    DType,
    Gemm,
    GemmShape,
    GroupedGemm,
    Program,
    TensorType,
    conv_shape,
    gemm_shape,
)
from dsl.rules import smem
from dsl.rules.image import Image, image_of

BACKENDS = ("cute", "cpp")
SCHEDULES = ("cooperative", "pingpong")
SCHEDULERS = ("persistent", "stream_k", "split_k")
SWIZZLES = (1, 2, 4, 8)
MIN_STAGES, MAX_STAGES = 2, 16
MAX_SPLITS = 128
LARGE_TRIANGLE = 2048  # rows

# A convolution of channels-first operands with at most this many channels a group is direct by default, because the
# tensor cores would mostly multiply padding.
DIRECT_CHANNELS = 16

# Under a guard the images of a row-major convolution of so many FLOPs are checked before it if reading them takes at
# most this share of its time: bytes/s of a kernel that only reads, and FLOP/s of these convolutions in f16 (102 GFLOP
# in 0.89 ms, 618 GFLOP in 4.6 ms), both on an H200. Measured there at shares of 0.08 and 0.11: before, the read takes
# 1 and 12% of a call that trips nothing; after, the worst data cost 1.68 and 1.59 times the tf32 program.
BEFORE_FLOPS, READ_SHARE = 3e10, 1 / 10
READ_RATE, ROWMAJOR_RATE = 4e12, 125e12


@dataclass(frozen=True)
class Problem:
    """The problem that a collective stage poses; `compute` is the operand precision (never None here).

    kind      gemm | grouped_gemm | conv | rowmajor. A direct convolution has no configuration, so no Problem.
    shape     of a row-major convolution: L images, M filters, N pixels.
    channels  of a convolution: input channels of one group, from which a K tile is cut.
    filters   of a convolution: output channels of one group.
    columns   of a transposed convolution: output channels of one group in all phases along w, which share a tile if
              there are 2 to 4 of them; else 0.
    beside    of a transposed convolution: phases along w that share a tile on `cpp`.
    triangle  the epilogue stores one triangle of a square product.
    watched   a row-major convolution checks the range of its images itself (dsl.guard).
    casts     the second operand is f32 and is cast as it is read (dsl.rules.cute.cast_weight).
    """

    arch: Arch
    shape: GemmShape
    compute: DType
    epilogue: smem.EpilogueUse
    free_major: bool = False  # neither operand has K contiguous
    b_along_n: bool = False  # the second operand has N contiguous (it is read without .T)
    a_along_k: bool = True  # the first operand has K contiguous (it is read without .T)
    kind: str = "gemm"
    image: Image | None = None  # of a convolution that reads nchw
    channels: int = 0
    columns: int = 0
    filters: int = 0
    beside: int = 1
    triangle: bool = False
    watched: bool = False
    casts: bool = False

    @property
    def transposes(self) -> bool:
        """Return True if K is not contiguous in one of the operands."""
        return self.b_along_n or not self.a_along_k


def half_computed(p: Problem) -> bool:
    """Return True for a product of which one triangle is stored and which `cpp` therefore writes: it computes half of
    the tiles. In half precision nvcc's 20 seconds are worth it for a large product alone."""
    return p.triangle and (p.compute is DType.TF32 or (p.compute.bits == 16 and p.shape.m >= LARGE_TRIANGLE))


def triangle_side(m: int, n: int, tile: tuple, cluster: tuple) -> int:
    """The number of cluster tiles along a side of a square m x n result; 0 if `cpp` cannot skip the other triangle.

    `cpp` computes only the tiles of one triangle (dsl/lower/cpp/templates/triangle.cu.j2) if cluster tiles are square
    and an even number of them covers each side.
    """
    square = tile[0] * cluster[0]
    if m != n or tile[1] * cluster[1] != square or m % (2 * square):
        return 0
    return m // square


def compute_of(stage: Collective, types: dict[str, TensorType | None]) -> DType:
    """The operand precision of a typed stage: its compute clause, or the default for its operands."""
    if isinstance(stage, Conv):
        return DType.F32 if is_direct(stage, types) else stage.config.compute or COMPUTE_FOR[types[stage.x.name].dtype]
    return stage.config.compute or COMPUTE_FOR[types[stage.a.name].dtype]


def is_direct(stage: Conv, types: dict[str, TensorType | None]) -> bool:
    """Return True for a direct convolution, on the CUDA cores: `compute f32`, or no compute clause and few channels."""
    if stage.config.compute is not None:
        return stage.config.compute is DType.F32
    x, w = types[stage.x.name], types[stage.w.name]
    return w.layout == NCHW and x.layout == NCHW and x.shape[1] // stage.groups <= DIRECT_CHANNELS


def casts(stage: Collective, types: dict[str, TensorType | None]) -> bool:
    """Return True for a checked product that casts its weight as it reads it (dsl.rules.cute.cast_weight)."""
    return isinstance(stage, Gemm) and types[stage.a.name].dtype is not types[stage.b.name].dtype


# Precisions of a row-major convolution, which rounds its f32 operands on the way to the tensor cores.
ROW_MAJOR_COMPUTE = (DType.TF32, DType.F16, DType.BF16)


def is_rowmajor(stage: Collective, types: dict[str, TensorType | None]) -> bool:
    """Return True for a row-major convolution: f32 nchw operands on the tensor cores.

    It has a compute clause and one group. If transposed, it has stride 1, so it equals a plain convolution with
    reversed filters.
    """
    if not isinstance(stage, Conv) or stage.groups != 1 or (stage.transposed and prod(stage.stride) != 1):
        return False
    operands = (types.get(stage.x.name), types.get(stage.w.name))
    as_it_lies = all(t is not None and t.layout == NCHW and t.dtype is DType.F32 for t in operands)
    return as_it_lies and stage.config.compute in ROW_MAJOR_COMPUTE


def problem_of(arch: Arch, stage: Collective, types: dict[str, TensorType | None]) -> Problem:
    """The problem of a typed collective stage."""
    compute, use = compute_of(stage, types), smem.stage_use(stage, types.get)
    known = SimpleNamespace(type_of=types.get)
    if is_rowmajor(stage, types):
        image = image_of(stage, types)
        shape = GemmShape(image.batch, image.filters, image.pixels, image.channels * image.taps)
        return Problem(arch, shape, compute, use, kind="rowmajor", image=image)
    if isinstance(stage, Conv):
        w = types[stage.w.name].shape
        channels = w[0] // stage.groups if stage.transposed else w[1]
        phases = stage.stride[-1] if 2 <= stage.stride[-1] <= 4 else 1
        columns = w[1] * phases if stage.transposed else 0
        filters = w[1] if stage.transposed else w[0] // stage.groups
        shape = conv_shape(known, stage)
        return Problem(
            arch,
            shape,
            compute,
            use,
            kind="conv",
            channels=channels,
            columns=columns,
            filters=filters,
            beside=phases_beside(stage),
        )
    if isinstance(stage, GroupedGemm):
        (rows, k), n = types[stage.a.name].shape, types[stage.b.name].shape[-2 if stage.b.transposed else -1]
        shape = GemmShape(1, rows, n, k)
        return Problem(arch, shape, compute, use, b_along_n=not stage.b.transposed, kind="grouped_gemm")
    shape, e = gemm_shape(known, stage), stage.epilogue
    return Problem(
        arch,
        shape,
        compute,
        use,
        stage.a.transposed and not stage.b.transposed,
        not stage.b.transposed,
        not stage.a.transposed,
        triangle=isinstance(e, Call) and e.fn in ("triu", "tril") and shape.m == shape.n,
        casts=casts(stage, types),
    )


def phases_beside(stage: Conv) -> int:
    """The number of phases along w that share a tile on `cpp`, 1 or 2.

    Two for a transposed convolution of stride 2 whose result is contiguous along w: a thread holds neighbouring columns
    of its tile and stores them together.
    """
    rows = stage.type is not None and stage.type.layout == NCHW and stage.type.shape[-1] > 1
    return 2 if stage.transposed and stage.stride[-1] == 2 and rows else 1


def types_of(program: Program) -> dict[str, TensorType]:
    """The types of all tensors of a checked program by name."""
    return program.types


def configured(stage, types: dict[str, TensorType | None]) -> bool:
    """Return True if a stage has a configuration: products, and convolutions on the tensor cores."""
    return isinstance(stage, Gemm | GroupedGemm) or (isinstance(stage, Conv) and not is_direct(stage, types))


def program_problem(program: Program, stage: Collective) -> Problem:
    """The problem of a stage of a checked program; see `problem_of`."""
    types = types_of(program)
    problem = problem_of(ARCHS[program.arch or DEFAULT], stage, types)
    if not program.guard or problem.kind != "rowmajor":
        return problem
    shape = problem.shape
    flops = 2.0 * shape.l * shape.m * shape.n * shape.k
    before = flops >= BEFORE_FLOPS and types[stage.x.name].bytes / READ_RATE <= READ_SHARE * flops / ROWMAJOR_RATE
    return replace(problem, watched=not before)


def checks_before(program: Program, stage: Collective) -> bool:
    """Return True for a convolution of a guarded program whose images a kernel before it checks, which only reads.

    Checked inside the product, they cost no read. But what f16 cannot hold may stand in the last image, and is seen
    when all has been multiplied in vain. Checked before, the worst data cost a read and the tf32 program, not two
    programs.
    """
    if not program.guard or not isinstance(stage, Conv) or is_direct(stage, types_of(program)):
        return False
    problem = program_problem(program, stage)
    return problem.kind == "rowmajor" and not problem.watched


@dataclass(frozen=True)
class Objection:
    """A broken rule. `clause` is the configuration clause that an error points at.

    `schedule`: the schedule with which the rule holds, if another schedule is why it is broken.
    """

    code: str
    clause: str
    message: str
    notes: tuple[str, ...] = ()
    schedule: str | None = None


def dims(values: Iterable[int]) -> str:
    return "x".join(map(str, values))


def kib(n: int) -> str:
    """Bytes for people: `64 KiB`, `4.5 KiB`."""
    return f"{n // 1024} KiB" if n % 1024 == 0 else f"{n / 1024:.1f} KiB"


def swizzle(c: Config) -> list[Objection]:
    """The broken rule of the swizzle clause, if any; all schedulers take the same values."""
    if c.swizzle is None or c.swizzle in SWIZZLES:
        return []
    return [Objection("E211", "swizzle", f"swizzle {c.swizzle}: tiles are grouped by 1, 2, 4 or 8")]
