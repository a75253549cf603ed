"""How a guarded program computes again whose guard tripped (dsl.guard), and what it leaves out before that.

The class of a guarded program is tf32, so what f16 cannot hold is multiplied again by the tensor cores in tf32, with
the kernels of a tf32 program behind a gate: they return at once where the guard's flag is not set. On `cute` operands
that do not lie along K, as tf32 needs, are copied first; on `cpp` a convolution reads images as they lie in either
class. The CUDA cores compute in f32 what has no such kernel (`cute` has no transposed convolutions in tf32, for
example) and what is not worth it.

A product in f16 whose operands have tripped the guard is not computed at all: where all that can trip it stands before,
its kernel has a gate, too, and returns at once where the flag is set. A large cast stops at what it finds, and what
reads the product is left out with it. On `cpp` a kernel that only reads may check what a convolution rounds before that
(dsl.rules.problem). So the worst data cost little more than the tf32 program where the guard trips before a large
product, and both programs where it trips after.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from dsl.arch import ARCHS, DEFAULT
from dsl.guard import conversions, rescue, writers
from dsl.ir import (
    NHWC,
    Attention,
    Config,
    Conv,
    DType,
    Gemm,
    Operand,
    Program,
    Stage,
    TensorType,
    Transform,
    conv_shape,
    gemm_shape,
    reads,
)
from dsl.narrowed import watched_stores
from dsl.resolve import complete
from dsl.rules import legal
from dsl.rules.problem import checks_before, is_rowmajor, problem_of, types_of

# What a kernel costs that finds it has nothing to do: the medians of the products in
# engine/results/guard-h200-2026-11-21.json.
WAIT_MS = 0.0026
# What a millisecond saved on data that trip a guard is worth in milliseconds of every call: they are the exception.
WORTH = 0.05
# FLOP/s of the kernels on the CUDA cores, from the same file: 1024x8192x8192 in 6.1 ms, convolutions of 8 to 63 ms.
SIMT_FLOPS = {Gemm: 22e12, Conv: 8e12}
# Least elements of a cast, or of another stage, whose blocks look at the flag before they read: 10 us, of which the
# looks take little.
LOOKING_ELEMENTS = 2**23
# Least FLOPs of a product in f16 that is left out where the flag is set: 0.05 ms. Its kernel begins a microsecond later
# where the flag is not, for it reads the flag before all else.
LEFT_OUT_FLOPS = 3e10


@lru_cache(maxsize=64)
def chosen(program: Program) -> Program:
    """The rescue pipeline of a guarded program: with its products in tf32 (`compute tf32`, configured), or all of it in
    f32."""
    plain, wide = rescue(program), in_tf32(program)
    if wide is None:
        return plain
    saved = sum(simt_ms(plain, s) for s in plain.stages) - sum(simt_ms(wide, s) for s in wide.stages)
    more = max(1, len(wide.stages) - len(plain.stages))
    return wide if saved * WORTH >= more * WAIT_MS else plain


def in_tf32(program: Program) -> Program | None:
    """The pipeline of a guarded program with each product in tf32 that its back end computes so; None if there is none,
    or if on `cute` a convolution needs the row-major layout that only the pipeline in f32 has."""
    if "cute" not in writers(program):
        return _as_images_lie(program)
    base, stages = rescue(program, layouts=True), []
    types = types_of(base)
    for s in base.stages:
        if isinstance(s, Conv):
            wide = _configured(base, s, types, "cute") if _is_narrow(s, types) else None
            if wide is None and not _lies_directly(s, types):
                return None
            stages.append(wide or s)
        elif isinstance(s, Gemm):
            shape, (copies, wide) = gemm_shape(base, s), _along_k(s, types)
            in_rows = shape.k % 4 == shape.n % 4 == 0  # of 16 bytes, as TMA reads and writes them
            wide = _configured(base, wide, types, "cute") if in_rows else None
            stages += [*copies, wide] if wide else [s]
        else:
            stages.append(s)
    program = replace(base, stages=tuple(stages))
    return program if any(map(on_tensor_cores, stages)) else None


def _as_images_lie(program: Program) -> Program | None:
    """The pipeline of a program of `cpp`, whose convolutions read row-major images and round them themselves."""
    base, stages = rescue(program), []
    types = types_of(base)
    for s in base.stages:
        rows = isinstance(s, Conv) and is_rowmajor(replace(s, config=Config(compute=DType.TF32)), types)
        stages.append((rows and _configured(base, s, types, "cpp")) or s)
    return replace(base, stages=tuple(stages)) if any(map(on_tensor_cores, stages)) else None


def on_tensor_cores(s: Stage) -> bool:
    """Return True for a stage of a rescue pipeline that is a product in tf32."""
    return isinstance(s, Gemm | Conv) and s.config.compute is DType.TF32


def leaves_out(program: Program, stage: Stage) -> bool:
    """Return True for a product of a guarded program that is not computed where the guard's flag is set.

    It does not set the flag itself: else blocks of one kernel might see different flags, and wait for each other. On
    `cpp` a convolution whose images are checked before it has a kernel of its own for that.
    """
    if checks_before(program, stage):
        return True
    if not program.guard or not isinstance(stage, Gemm | Conv) or _sets_flag(program, stage):
        return False
    types = types_of(program)
    if not legal.configured(stage, types) or legal.compute_of(stage, types) is not DType.F16:
        return False
    return _flops(program, stage) >= LEFT_OUT_FLOPS


def leaves_out_own(program: Program, stage: Stage) -> bool:
    """Return True for another large stage of a guarded program on `cute` that is not computed where the flag is set,
    which it does not set, and which stages before it may set."""
    if not program.guard or "cute" not in writers(program) or isinstance(stage, Gemm | Conv | Attention):
        return False
    before = program.stages[: [s.name for s in program.stages].index(stage.name)]
    types = types_of(program)
    largest = max((types[name].elements for name in (stage.name, *reads(stage))), default=0)
    if largest < LOOKING_ELEMENTS or _sets_flag(program, stage):
        return False
    return any(_sets_flag(program, s) for s in before)


def _sets_flag(program: Program, stage: Stage) -> bool:
    return bool(watched_stores(program, stage) or conversions(program, stage))


def stops_early(cast: TensorType) -> bool:
    """Return True for a cast to f16 whose blocks leave out what is left once the flag is set."""
    return cast.elements >= LOOKING_ELEMENTS


def _flops(program: Program, s: Gemm | Conv) -> float:
    shape = conv_shape(program, s) if isinstance(s, Conv) else gemm_shape(program, s)
    return 2.0 * shape.l * shape.m * shape.n * shape.k


def simt_ms(program: Program, s: Stage) -> float:
    """What a stage of a rescue pipeline takes on the CUDA cores, if it is a product or a convolution there, else 0."""
    if not isinstance(s, Gemm | Conv) or s.config.compute is not DType.F32:
        return 0.0
    return 1e3 * _flops(program, s) / SIMT_FLOPS[type(s)]


def _is_narrow(s: Conv, types: dict[str, TensorType]) -> bool:
    """Return True for a convolution that the first pipeline has on the tensor cores, if tf32 can do it, too."""
    x, w = types[s.x.name], types[s.w.name]
    channels, filters = x.shape[1] // s.groups, s.type.shape[1] // s.groups
    return x.layout == w.layout == NHWC and not s.transposed and channels % 4 == 0 and filters % 8 == 0


def _lies_directly(s: Conv, types: dict[str, TensorType]) -> bool:
    """Return True if the kernel on the CUDA cores reads a convolution's tensors well as they lie."""
    x, w = types[s.x.name], types[s.w.name]
    depthwise = w.shape[1] == 1 and s.type.shape[1] == s.groups and not s.transposed
    return NHWC not in (x.layout, w.layout, s.type.layout) or (depthwise and x.layout == s.type.layout == NHWC)


def _along_k(s: Gemm, types: dict[str, TensorType]) -> tuple[list[Transform], Gemm]:
    """Copies of the operands of a product that do not lie along K, and the product of these."""
    copies: list[Transform] = []

    def copy(o: Operand) -> Operand:
        *lead, rows, columns = types[o.name].shape
        n, name = len(lead), f"{o.name}_along_k"
        while name in types:
            name += "_"
        types[name] = TensorType(DType.F32, (*lead, columns, rows))
        copies.append(Transform(name=name, x=Operand(o.name), permute=(*range(n), n + 1, n), type=types[name]))
        return Operand(name)

    a = copy(s.a) if s.a.transposed else s.a
    b = s.b if s.b.transposed else replace(copy(s.b), transposed=True)
    return copies, replace(s, a=a, b=b)


def _configured(program: Program, s: Gemm | Conv, types: dict[str, TensorType], backend: str) -> Gemm | Conv | None:
    """A product in tf32 with the configuration that `auto` gives it; None if the back end has no kernel for it."""
    s = replace(s, config=Config(compute=DType.TF32))
    config = complete(problem_of(ARCHS[program.arch or DEFAULT], s, types), s.config, backends=(backend,))
    return replace(s, config=config) if config else None
