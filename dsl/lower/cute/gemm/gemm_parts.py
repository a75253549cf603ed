"""The text that products add to a generated module: the stages, and operations that quack's epilogues do not have.

As in parts.py, each part is emitted only if a program uses it. The operations follow quack's protocol
(quack.epilogue.ops.EpiOp). A part's version is in the operation's cache key, because quack identifies an operation by
its name and not by its text.
"""

from __future__ import annotations

import hashlib

GEMM = '''\
class GemmStage:
    """A quack GEMM with an epilogue of ours: planned (compiled, or found in quack's cache) once, then launched."""

    def __init__(self, epilogue, **config):
        self.epilogue, self.config, self.planned = epilogue, config, None

    def plan(self, A, B, D, operands):
        return self.epilogue.gemm(A, B, D, epi_args=operands, _launch=False, **self.config)

    def __call__(self, A, B, D, operands):
        if self.planned is None:
            self.planned = self.plan(A, B, D, operands)
        run_gemm_epi_plan(self.planned, A, B, D, None, operands)
'''

SPLIT_K = '''\
class SplitKStage(GemmStage):
    """K in parts: each tile's partial sums are added in order, the same bits each time, by the last part."""

    partials = None  # one flag a tile, which the last part clears again, and f32 partial sums: allocated once

    def __call__(self, A, B, D, operands):
        if self.planned is None:
            self.planned = self.plan(A, B, D, operands)
            edges = [self.config[edge] for edge in ("tile_M", "tile_N", "cluster_M", "cluster_N")]
            self.partials = _split_k_buffers(D if D.ndim == 3 else D[None], SplitKMode.SERIAL, *edges, False)
        run_gemm_epi_plan(self.planned, A, B, D, None, operands, split_k_buffers=self.partials)
'''

GROUPED = '''\
@cute.kernel
def offsets_kernel(sizes: cute.Tensor, offsets: cute.Tensor, rows: cutlass.Int32):
    """offsets[g] = rows of the groups before g, never more than there are."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    group = block * 256 + thread
    if group < cute.size(offsets):
        total = cutlass.Int32(0)
        for before in cutlass.range(group, unroll=8):
            total += cutlass.max(sizes[before], 0)
        offsets[group] = cutlass.min(total, rows)


@cute.jit
def offsets_launch(sizes: cute.Tensor, offsets: cute.Tensor, rows: cutlass.Int32, stream: CUstream):
    blocks = cute.ceil_div(cute.size(offsets), 256)
    offsets_kernel(sizes, offsets, rows).launch(grid=(blocks, 1, 1), block=(256, 1, 1), stream=stream)


@jit_cache
def ucutlass_offsets(version):
    """The compiled sums of group sizes, for any number of groups. `version` names the text above in the cache."""
    flat = [cute.runtime.make_fake_tensor(cutlass.Int32, (cute.sym_int(),), stride=(1,)) for _ in range(2)]
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(offsets_launch, *flat, cutlass.Int32(0), stream, options="--enable-tvm-ffi")


class GroupedStage(GemmStage):
    """Many products in one launch: group g multiplies rows offsets[g] to offsets[g + 1] of A by B[g]."""

    def plan(self, A, B, D, operands, sizes, offsets):
        self.sums = ucutlass_offsets(OFFSETS_VERSION)
        return self.epilogue.gemm(A, B, D, epi_args=operands, cu_seqlens_m=offsets, _launch=False, **self.config)

    def __call__(self, A, B, D, operands, sizes, offsets):
        if self.planned is None:
            self.planned = self.plan(A, B, D, operands, sizes, offsets)
        self.sums(sizes, offsets, A.shape[0])
        run_gemm_epi_plan(self.planned, A, B, D, None, operands, cu_seqlens_m=offsets)
'''

OFFSET = '''\
class Offset(EpiOp):
    """n - m of each element, as a value that an epilogue reads."""

    fn_port = "value"

    def config_key(self):
        return (OFFSET_VERSION,)

    def host_arg_key(self, value):
        return value

    def host_fake_arg(self, key, fctx):
        return key

    def host_call_arg(self, value, key):
        return None

    def arg_spec_type(self, const=False):
        return cutlass.Constexpr[int]

    def host_arg_form(self, value):
        return "Const"

    def param_fields(self):
        return [(self.name, object, None)]

    def to_params(self, gemm, args):
        return {self.name: getattr(args, self.name)}

    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        places = ctx.partition_for_epilogue_fn(cute.make_identity_tensor((ctx.tile_M, ctx.tile_N)))
        first = ctx.tile_coord_mnkl[1] * ctx.tile_N - ctx.tile_coord_mnkl[0] * ctx.tile_M
        return (places, first)

    def begin_loop(self, gemm, state, epi_coord):
        return (state[0][None, None, None, epi_coord[0], epi_coord[1]], state[1])

    @cute.jit
    def fn_prepare(self, gemm, state, paired):
        places, first = state
        offset = cute.make_rmem_tensor(places.layout.shape, cutlass.Int32)
        for i in cutlass.range(cute.size(offset), unroll_full=True):
            place = places[i]
            offset[i] = first + place[1] - place[0]
        return offset
'''

PAIRS = '''\
class PairRow(RowVecLoad):
    """A vector along the columns of a product of pairs: one value for two columns of the accumulator."""

    def config_key(self):
        return (PAIRS_VERSION,)

    def host_fake_arg(self, key, fctx):
        dtype, ndim = key
        shape = (fctx.l, cute.sym_int()) if ndim == 2 else (cute.sym_int(),)
        return make_fake_tensor(dtype, shape, 1, leading_dim=ndim - 1)

    def to_params(self, gemm, args):
        return {self.name: getattr(args, self.name)}

    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        vector = self._get_gmem_vec(param, ctx)
        first = ctx.tile_coord_mnkl[1] * ctx.tile_N
        for step in cutlass.range_constexpr(cute.ceil_div(ctx.tile_N, ctx.num_epi_threads)):
            column = step * ctx.num_epi_threads + ctx.tidx
            if column < ctx.tile_N and first + column < 2 * cute.size(vector):
                smem_tensor[column] = vector[(first + column) // 2]
        whole = cute.make_layout((ctx.tile_M, ctx.tile_N), stride=(0, 1))
        shared = ctx.partition_for_epilogue_fn(cute.make_tensor(smem_tensor.iterator, whole))
        one = cute.group_modes(shared, 3, cute.rank(shared))[None, None, None, 0]
        return [shared, cute.make_rmem_tensor(one.layout, gemm.acc_dtype)]
'''

WHOLE = '''\
torch2cute_dtype_map.setdefault(torch.int8, cutlass.Int8)  # quack multiplies no int8 by itself


class WholeNumbers:
    """int8 operands: the tensor cores add in int32, and the epilogue reads the f32 value of the sum."""

    def __init__(self, *args, **config):
        super().__init__(*args, fp8_fast_accum=True, **config)

    def _setup_tiled_mma(self):
        self.acc_dtype = cutlass.Int32
        super()._setup_tiled_mma()
        self.acc_dtype = cutlass.Float32

    def mma(self, pipeline, state, multiply, acc, slow, count, group):
        tiled, _, a, b = multiply.args
        whole = cute.recast_tensor(acc, cutlass.Int32)
        multiply = partial(multiply.func, tiled, whole, a, b)
        state = super().mma(pipeline, state, multiply, whole, None, count, group)
        acc.store(whole.load().to(cutlass.Float32))
        return state


class WholeEpilogue(EpiMod):
    """An epilogue of a product of int8."""

    def _mint(self, *key):
        made = super()._mint(*key)
        kinds = self.__dict__.setdefault("whole", {})
        if made not in kinds:
            kinds[made] = type(made.__name__ + "_i8", (WholeNumbers, made), {"__module__": made.__module__})
        return kinds[made]


def whole_epilogue(**how):
    return lambda function: WholeEpilogue(function, **how)
'''

TENSOR_FLOATS = '''\
class TensorFloats:
    """f32 operands, both along K. TMA rounds them to tf32, and the tensor cores add in f32."""

    def __init__(self, *args, **config):
        super().__init__(*args, **config)
        self.types, self.mma_a_dtype = {}, cutlass.Float16

    def operand(name):
        """The type of an operand: quack, which multiplies no f32, is told f16 until its checks are done."""

        def get(self):
            return self.types[name] if hasattr(self, "tiled_mma") else cutlass.Float16

        return property(get, lambda self, dtype: self.types.update({name: dtype}))

    a_dtype, b_dtype = operand("a"), operand("b")

    def _setup_tiled_mma(self):
        self.a_smem_dtype = self.b_smem_dtype = cutlass.TFloat32
        self.a_tma_internal_dtype = self.b_tma_internal_dtype = cutlass.TFloat32
        multiply = tensor_floats(self.cta_tile_shape_mnk[1] // self.atom_layout_mnk[1])
        self.tiled_mma = cute.make_tiled_mma(multiply, self.atom_layout_mnk, self.neighbours())

    def neighbours(self):
        """Two warp groups that split N take turns of 8 columns, so that each stores neighbouring ones."""
        groups = self.atom_layout_mnk[1]
        if groups == 1:
            return None
        turns = (8, self.cta_tile_shape_mnk[1] // groups // 8, groups)
        return (None, cute.make_ordered_layout(turns, order=(0, 2, 1)), None)


class TensorFloatEpilogue(EpiMod):
    """An epilogue of a product in tf32."""

    def _mint(self, *key):
        made = super()._mint(*key)
        kinds = self.__dict__.setdefault("tensor_floats", {})
        if made not in kinds:
            kinds[made] = type(made.__name__ + "_tf32", (TensorFloats, made), {"__module__": made.__module__})
        return kinds[made]


def tensor_float_epilogue(**how):
    return lambda function: TensorFloatEpilogue(function, **how)
'''


GATED = '''\
class Gate(EpiOp):
    """The guard's flag, which the kernel reads before all else. An epilogue's function does not see it."""

    def __init__(self, name, up):
        super().__init__(name)
        self.up = up

    def config_key(self):
        return (self.up, GATE_VERSION)

    def host_fake_arg(self, key, fctx):
        return cute.runtime.make_fake_tensor(cutlass.Int32, (1,), stride=(1,))

    def param_fields(self):
        return [(self.name, object, None)]

    def to_params(self, gemm, args):
        return {self.name: getattr(args, self.name)}


def epilogue_behind_gate(kind, up, **how):
    """An epilogue of a product that runs where the guard's flag is set (`up`), or where it is not."""

    class Gated:
        kernel = gate(GemmSm90.kernel, lambda named: named["epilogue_params"].gate, up)

    class GatedEpilogue(kind):
        def _mint(self, *key):
            made = super()._mint(*key)
            kinds = self.__dict__.setdefault("gated", {})
            if made not in kinds:
                kinds[made] = type(made.__name__ + "_gated", (Gated, made), {"__module__": made.__module__})
            return kinds[made]

    return lambda function: GatedEpilogue(function, extra_ops=(Gate("gate", up),), **how)
'''


def version(text: str) -> str:
    """A short name of a part's text, for cache keys."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def versioned(name: str, text: str) -> str:
    """A part with the definition of its version above it."""
    return f'{name} = "{version(text)}"  # part of the cache key, beside quack\'s\n\n\n{text}'
