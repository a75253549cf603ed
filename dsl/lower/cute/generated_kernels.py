"""Shared parts of the generated kernels: expressions as functions, and the text around a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsl.ir import Acc, Call, DType, Expr, Load, Normalize, Program, Stage, TensorType, inlined, loads, reads_second
from dsl.lower import Refusal
from dsl.lower.cute import expression, same_kernels
from dsl.lower.cute.stage import CUTE, Part, Scratch, StagePlan, Text, memory_shape, types_of
from dsl.narrowed import watched_stores

THREADS = 256
SMS = 132
COMPUTED = (DType.F32, DType.F16, DType.BF16, DType.E4M3, DType.E5M2, DType.I8, DType.I32)
REDUCED = ("row_sum", "row_max", "col_sum", "row_logsumexp")

OWN = '''\
KERNELS = {}  # what a version compiles: its launch function, the element types and shapes of its tensors


@jit_cache
def ucutlass_own(version):
    """The compiled launch of `version`, which names the text of its kernels in quack's cache."""
    launch, tensors = KERNELS[version]
    fakes = []
    for dtype, shape in tensors:
        strides = [1]
        for extent in reversed(shape[1:]):
            strides.insert(0, strides[0] * extent)
        strides = tuple(strides) if shape else ()
        fakes.append(cute.runtime.make_fake_tensor(dtype, shape, stride=strides, assumed_align=16))
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(launch, *fakes, stream, options="--enable-tvm-ffi")


class OwnStage:
    """Kernels of our own for these very shapes: compiled once, or found in the cache, then launched."""

    def __init__(self, launch, version, *tensors):
        KERNELS[version] = (launch, tensors)
        self.version, self.kernel = version, None

    def plan(self, *tensors):
        return ucutlass_own(self.version)

    def __call__(self, *tensors):
        if self.kernel is None:
            self.kernel = self.plan(*tensors)
        self.kernel(*tensors)


def read(tensor, offset, count, step=1, whole=True):
    """`count` elements from `offset` on (in elements), `step` apart; `whole`: neighbours, aligned, in one access."""
    values = cute.make_rmem_tensor((count,), tensor.element_type)
    fetch(values, tensor, offset, step, whole)
    return values


def fetch(values, tensor, offset, step=1, whole=True):
    """The same into registers that are there."""
    count = cute.size(values)
    if step == 1 and whole:
        first = (tensor.iterator + offset).align(min(16, count * tensor.element_type.width // 8))
        cute.autovec_copy(cute.make_tensor(first, cute.make_layout((count,))), values)
    else:
        for lane in range(count):
            values[lane] = cute.make_tensor(tensor.iterator + (offset + lane * step), cute.make_layout((1,)))[0]


def lanes(values):
    """The elements as f32."""
    return values.load().to(Float32)


def narrow(values, dtype):
    """f32 values in a narrower type: to nearest even; integers saturate."""
    values = values.load()
    if dtype in (Int8, Int32):
        whole = cute.make_rmem_tensor(values.shape, dtype)
        for lane in range(cute.size(values.shape)):
            top = {Int8: 127.0, Int32: 2147483520.0}[dtype]  # the last f32 that fits
            low = {Int8: -128.0, Int32: -2147483648.0}[dtype]
            whole[lane] = cute.math.roundeven(cute.arch.fmin(cute.arch.fmax(values[lane], low), top)).to(dtype)
        return whole.load()
    return values.to(dtype)


def write(tensor, offset, values, step=1, whole=True):
    """f32 (or raw) values to `offset` on."""
    count = cute.size(values)
    if values.element_type is not tensor.element_type:
        narrowed = cute.make_rmem_tensor((count,), tensor.element_type)
        narrowed.store(narrow(values, tensor.element_type))
        values = narrowed
    if step == 1 and whole:
        first = (tensor.iterator + offset).align(min(16, count * tensor.element_type.width // 8))
        cute.autovec_copy(values, cute.make_tensor(first, cute.make_layout((count,))))
    else:
        for lane in range(count):
            cute.make_tensor(tensor.iterator + (offset + lane * step), cute.make_layout((1,)))[0] = values[lane]
'''

FLAG = "guard_flag"  # one i32 that a kernel sets if a value is out of f16's range (dsl.guard)
WATCH = '''\
def greatest(most, values):
    """The greater of `most` and the magnitudes of f32 `values`, as bits: in this order NaN is above infinity."""
    bits = cute.recast_tensor(values, Uint32)
    for lane in range(cute.size(values)):
        most = cutlass.max(most, bits[lane] & Uint32(0x7FFFFFFF))
    return most


@cute.jit
def out_of_range(most: Uint32):
    """Whether the greatest magnitude of a warp is neither 0 nor within [2^-9, 65504]."""
    most = Uint32(cute.arch.warp_redux_sync(most, kind="umax"))
    return (most != 0) & ((most < Uint32(0x3B000000)) | (most > Uint32(0x477FE000)))


@cute.jit
def raise_where(wrong, flag: cute.Tensor):
    """Raise the flag. Stores to one word follow each other, so a warp stores once for all that it read, and not where
    another one of its SM did."""
    if wrong:
        word = cute.make_tensor(flag.iterator, cute.make_layout((1,)))
        if word[0] == 0:
            word[0] = Int32(1)


def watch(most, flag):
    """Raise the flag where the greatest magnitude of a warp is out of range."""
    raise_where(out_of_range(most), flag)
'''

IMPORTS = frozenset(
    {
        ("cuda.bindings.driver", "CUstream"),
        ("quack.cache", "jit_cache"),
        *(("cutlass", n) for n in ("Float32", "Int8", "Int32", "Int64", "Uint32")),
    }
)
MODULES = frozenset({"cutlass", "cutlass.cute as cute"})


@dataclass(frozen=True)
class Element:
    """An expression as a function: `text` defines `name(acc, *arguments)`; `second`: `name(acc, acc2, *arguments)`."""

    name: str
    text: str
    loads: tuple[Load, ...]  # in the order of the arguments after acc
    arguments: tuple[str, ...]
    imports: frozenset[tuple[str, str]]
    plain: bool  # the expression is acc alone
    second: bool = False

    def call(self, acc: str, *values: str, acc2: str = "") -> str:
        """The text of a call with acc, the values of the loads, and acc2."""
        return acc if self.plain else f"{self.name}({', '.join([acc, *([acc2] if self.second else []), *values])})"


def element(stage: Stage, expr: Expr, name: str, doc: str = "") -> Element:
    """An expression of the stage, with its lets expanded, as a function.

    Raises Refusal for a function that the generated kernels do not have.
    """
    expr = inlined(stage, expr)
    _refuse(stage, expr)
    reads = loads(expr)
    several = [load.name for load in reads]
    arguments: dict[tuple, str] = {}
    for load in reads:
        at = "".join(load.places).replace(" + ", "")
        argument = load.name + (f"_{at}" if several.count(load.name) > 1 else "")
        while argument in arguments.values() or argument in ("acc", "acc2"):
            argument += "_"
        arguments[(load.name, load.places)] = argument
    second = reads_second(expr)
    body = expression.write(expr, arguments, {"acc", "acc2", *arguments.values()})
    head = f"def {name}({', '.join(['acc', *(['acc2'] if second else []), *arguments.values()])}):\n"
    lines = [f'    """{doc}"""'] if doc else []
    lines += [f"    # {note}" for note in body.notes] + [f"    {line}" for line in body.lines]
    value = body.value if not isinstance(expr, Acc | Load) else f"{body.value}"
    if not _has_tensor(expr):
        value = f"Float32({value})"
    text = head + "\n".join([*lines, f"    return {value}"]) + "\n"
    plain = isinstance(expr, Acc) and not second
    return Element(name, text, reads, tuple(arguments.values()), frozenset(body.imports), plain, second)


def _has_tensor(e: Expr) -> bool:
    return isinstance(e, Acc | Load) or (isinstance(e, Call) and any(map(_has_tensor, e.args)))


def _refuse(stage: Stage, e: Expr) -> None:
    if isinstance(e, Acc) and e.second and not (isinstance(stage, Normalize) and stage.op != "absmax"):
        raise Refusal("cute-pairs", f"acc2 in {stage.name} belongs to a gemm with pairs", "write acc")
    if isinstance(e, Call):
        if e.fn in REDUCED or e.fn in ("triu", "tril"):
            raise Refusal("cute-epilogue", f"{e.fn} in {stage.name} needs a gemm's tiles", "reduce in a separate stage")
        for a in e.args:
            _refuse(stage, a)


def refuse_types(stage: Stage, types: dict[str, TensorType], names: Sequence[str]) -> None:
    """Raise Refusal for types that f32 arithmetic cannot represent, such as f64."""
    for name in names:
        if types[name].dtype not in COMPUTED:
            raise Refusal(
                "cute-dtype", f"generated kernels compute in f32; {name} is {types[name].dtype.value}", "cast it first"
            )


def watched_results(program: Program, stage: Stage) -> tuple[str, ...]:
    """The results whose range a stage's kernels check for the guard; none in a program without a guard."""
    return watched_stores(program, stage) if program.guard else ()


def version_of(parts: Sequence[Part], text: str, names: Sequence[str]) -> str:
    """The key of a kernel's text in quack's cache. `names`: of its stage and tensors, which make no difference."""
    return same_kernels.key(OWN + "".join(p.text for p in parts), text, names)


def own_plan(
    program: Program,
    stage: Stage,
    text: Text,
    launch: str,
    tensors: Sequence[str],
    scratch: Sequence[Scratch] = (),
    imports: frozenset[tuple[str, str]] = frozenset(),
    parts: Sequence[Part] = (),
    note: str = "",
    watches: bool = False,
) -> StagePlan:
    """The plan of a stage whose kernels `text` defines and `launch(*tensors, *scratch, stream)` launches.

    `watches`: the launch takes the guard's flag after the scratch. This adds the definition of `<STAGE>` to the text.
    """
    types = types_of(program)
    shapes = [(types[n].dtype, memory_shape(types[n])) for n in tensors]
    shapes += [(s.dtype, s.shape) for s in scratch]
    shapes += [(DType.I32, (1,))] if watches else []
    parts = [*parts, *([Part(WATCH, 35)] if watches else [])]
    name = stage.name
    arguments = [*tensors, *(f"{name}_{s.suffix}" for s in scratch), *([FLAG] if watches else [])]
    version = version_of(parts, text.text() + repr([(d.value, s) for d, s in shapes]), (name, *arguments))
    text.gap(2)
    text.add(f"{name.upper()} = OwnStage(" + (f"  # {note}" if note else ""))
    text.add(f'    {launch}, "{version}",')
    for dtype, shape in shapes:
        text.add(f"    (cutlass.{CUTE[dtype]}, {shape!r}),")
    text.add(")")
    return StagePlan(
        text,
        ", ".join(arguments),
        tuple(arguments),
        (Part(OWN, 30), *parts),
        IMPORTS | imports,
        tuple(scratch),
        modules=MODULES,
    )
