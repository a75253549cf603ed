"""The text of a generated module that does not depend on the program.

It is short, so that a reader of the generated file need not know this package. Each part is emitted only if a program
uses it.
"""

from __future__ import annotations

import hashlib

HEADER = """\
import os

os.environ.setdefault("CUTE_DSL_ARCH", "{arch}")  # what is compiled for, GPU or none
os.environ.setdefault("QUACK_ARCH", "{capability}")  # which of quack's kernels is taken
"""

# quack's cache key of an epilogue has its module's name and its source. One name for all generated modules lets
# programs that differ only in shapes share a build, from whatever file they are loaded.
MODULE_NAME = """\
__name__ = "ucutlass_generated"  # part of quack's cache key: programs with equal kernels share one build
"""

CAST = '''\
THREADS, ROWS = 256, 4  # a thread converts ROWS vectors, all loaded before the first is stored


@cute.kernel
def cast_kernel(x: cute.Tensor, y: cute.Tensor, vector: cutlass.Constexpr):
    """y = x in y's element type. Both are flat; `vector` elements move at a time (8: 128-bit accesses)."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    xs, ys = cute.zipped_divide(x, (vector,)), cute.zipped_divide(y, (vector,))
    count = cute.size(xs, mode=[1])
    first = block * (THREADS * ROWS) + thread
    loaded = cute.make_rmem_tensor((vector, ROWS), x.element_type)
    stored = cute.make_rmem_tensor((vector, ROWS), y.element_type)
    if (block + 1) * (THREADS * ROWS) <= count:  # a full block asks no questions
        for i in cutlass.range_constexpr(ROWS):
            cute.autovec_copy(xs[None, first + i * THREADS], loaded[None, i])
        stored.store(loaded.load().to(y.element_type))
        for i in cutlass.range_constexpr(ROWS):
            cute.autovec_copy(stored[None, i], ys[None, first + i * THREADS])
    else:
        for i in cutlass.range_constexpr(ROWS):
            if first + i * THREADS < count:
                cute.autovec_copy(xs[None, first + i * THREADS], loaded[None, i])
                stored[None, i].store(loaded[None, i].load().to(y.element_type))
                cute.autovec_copy(stored[None, i], ys[None, first + i * THREADS])


@cute.jit
def cast_launch(x: cute.Tensor, y: cute.Tensor, vector: cutlass.Constexpr, stream: CUstream):
    blocks = cute.ceil_div(cute.size(x), vector * THREADS * ROWS)
    cast_kernel(x, y, vector).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)


@jit_cache
def ucutlass_cast(source, target, vector, version):
    """The compiled cast; any length that is a multiple of `vector`. `version` names the text above in the cache."""
    length = cute.sym_int(divisibility=vector)
    flat = {}
    for dtype in (source, target):
        align = min(16, vector * dtype.width // 8)
        flat[dtype] = cute.runtime.make_fake_tensor(dtype, (length,), stride=(1,), assumed_align=align)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(cast_launch, flat[source], flat[target], vector, stream, options="--enable-tvm-ffi")


class CastStage:
    """A cast of a whole tensor."""

    def __init__(self, source, target, vector):
        self.key, self.kernel = (source, target, vector, CAST_VERSION), None

    def plan(self, x, y):
        return ucutlass_cast(*self.key)

    def __call__(self, x, y):
        if self.kernel is None:
            self.kernel = self.plan(x, y)
        self.kernel(x.view(-1), y.view(-1))
'''

CAST_VERSION = hashlib.sha256(CAST.encode()).hexdigest()[:12]

TENSOR_FLOAT = '''\
class TensorFloatOp(warpgroup.mma.MmaOp):
    """Hopper's tf32 instruction: CuTe DSL compiles it, but has no class for it."""

    descriptive_name = "warp-group tf32"
    _make_trait = warpgroup.MmaF16BF16Op._make_trait


def tensor_floats(n):
    """The product of 64 x 8 by 8 x n values in shared memory: f32 rounded to tf32, both operands along K."""
    kind, along_k = cutlass.TFloat32, cute.nvgpu.OperandMajorMode.K
    shape, source = (64, n, 8), warpgroup.OperandSource.SMEM
    return cute.make_mma_atom(TensorFloatOp(kind, kind, cutlass.Float32, shape, source, along_k, along_k))
'''

LLVM = ("cutlass._mlir.dialects", "llvm")
# What the text of a gate imports beside CUTLASS.
GATE_IMPORTS = frozenset({LLVM, ("functools", "wraps"), ("types", "FunctionType")})

GATE = '''\
def gate(kernel, flag_of, up):
    """`kernel` behind a gate: it returns at once unless the guard's flag is set (`up`), or if it is set (not `up`).
    `flag_of`: the flag out of the kernel's arguments by name.

    Every thread of the grid reads the same word, and nobody writes it meanwhile: what sets it stands before this launch
    in the stream, and the wait lets all of that end, even where this grid began while it still ran (PDL). So all warps
    of all blocks leave here, or none. The barriers in shared memory, the meeting of a cluster's blocks, the first load
    by TMA and the registers that warp groups hand over come after, so none of them ever waits for who has left. A grid
    that leaves has waited too: its end still means the end of all before it. The load goes past L1, which may hold the
    word of before. A kernel that sets the flag has no gate of its own, as its blocks might read different values.
    """
    inner = kernel.__wrapped__
    code = getattr(inner, "_original_code", inner.__code__)  # CuTe DSL rewrites a kernel's code when it traces it
    body = FunctionType(code, inner.__globals__, inner.__name__, inner.__defaults__, inner.__closure__)
    body.__annotations__ = inner.__annotations__
    body, signature = cute.jit(body), inspect.signature(inner)

    @wraps(inner, updated=())  # not what CuTe DSL knows of `inner`
    def gated(*values, **named):
        flag = flag_of(signature.bind(*values, **named).arguments)
        leaves = "eq" if up else "ne"
        llvm.inline_asm(
            None,
            [flag.iterator.toint().ir_value()],
            "{ .reg .pred leaves; .reg .b32 flag; griddepcontrol.wait; ld.relaxed.gpu.global.b32 flag, [$0]; "
            f"setp.{leaves}.s32 leaves, flag, 0; @leaves exit; }}",
            "l,~{memory}",
            has_side_effects=True,
            asm_dialect=llvm.AsmDialect.AD_ATT,
        )
        return body(*values, **named)

    return cute.kernel(preprocess=False)(gated)
'''

LEAVE = '''\
def leave_where_set(flag):
    """End the block if its first thread sees the guard's flag set: nobody reads its results. Others of the kernel may
    be setting it, so threads might see it differently, and loads of one word follow each other: one a block."""
    llvm.inline_asm(
        None,
        [flag.iterator.toint().ir_value()],
        "{ .reg .pred leaves, first; .reg .b32 flag, thread; mov.u32 thread, %tid.x; setp.eq.u32 first, thread, 0; "
        "mov.b32 flag, 0; @first ld.relaxed.gpu.global.b32 flag, [$0]; setp.ne.s32 leaves, flag, 0; "
        "barrier.cta.red.or.pred leaves, 0, leaves; @leaves exit; }",
        "l,~{memory}",
        has_side_effects=True,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
'''

PACKED = '''\
class Packed:
    """Remembers which version of its parameters was prepacked: the very same tensors, not written to since."""

    def __init__(self):
        self.of, self.versions = (), ()

    def stale(self, *tensors):
        versions = [None if t.is_inference() else t._version for t in tensors]
        same = len(self.of) == len(tensors) and all(a is b for a, b in zip(self.of, tensors))
        if same and None not in versions and versions == self.versions:
            return False
        self.of, self.versions = tensors, versions
        return True
'''

GRAPHS = '''\
class Graphs:
    """`launch` as one CUDA graph for each set of tensors: recorded at the first call with them, then replayed."""

    def __init__(self, launch):
        self.launch, self.recorded = launch, {}

    def __call__(self, inputs, outputs):
        if torch.cuda.is_current_stream_capturing():  # part of a graph of the caller's
            return self.launch(inputs, outputs)
        key = tuple(tensor.data_ptr() for tensor in (*inputs, *outputs))
        graph = self.recorded.pop(key, None)
        if graph is None:
            self.launch(inputs, outputs)  # this call's results; and nothing is left to compile while recording
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.launch(inputs, outputs)
        else:
            graph.replay()
        self.recorded[key] = graph  # the latest last
        if len(self.recorded) > 8:
            del self.recorded[next(iter(self.recorded))]
'''

CHECK = '''\
def check(tensors, expected, what):
    """One clear error instead of a kernel that reads out of bounds."""
    if len(tensors) != len(expected):
        raise ValueError(f"{len(expected)} {what}s, not {len(tensors)}")
    for tensor, (name, dtype, shape) in zip(tensors, expected):
        if tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_contiguous():
            have = f"{tensor.dtype}{list(tensor.shape)}"
            raise ValueError(f"{what} {name} must be contiguous {dtype}{list(shape)}, not {have}")
        if tensor.data_ptr() % 16:
            raise ValueError(f"{what} {name} must start at a multiple of 16 bytes")
'''

BUILD = '''\
def build(stages=STAGES):
    """Compile `stages` (all of them): operands are fake tensors, and nothing is launched."""
    with FakeTensorMode():
        fakes = {name: torch.empty(shape, dtype=dtype, device="cuda") for name, dtype, shape in TENSORS}
        for name in stages:
            stage, operands = STAGES[name]
            stage.plan(*operands(fakes))
'''
