"""The text of a generated module that its products share: the stages, and operations that quack's epilogues lack.

As in parts.py, each part is emitted only where a program uses it. quack takes an operation of ours through its own
protocol (quack.epilogue.ops.EpiOp); a part's version is in the operation's cache key, since quack fingerprints an
operation by its name and not by its text.
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

REDUCE = '''\
class RowReduce(ColVecReduce):
    """sum or max over n within a tile (quack names a reduction after the vector it leaves). `ragged`: N is no multiple
    of the tile, and what lies past the edge must not count. A max keeps NaN."""

    def __init__(self, name, combine, ragged):
        super().__init__(name, combine)
        self.ragged = ragged

    def config_key(self):
        return (self.combine, self.ragged, REDUCE_VERSION)

    def _mask_oob_active(self):
        return self.ragged

    @cute.jit
    def _mask_oob(self, frag, coords, limit, tile_shape_mn):
        along = (0, 1) if cutlass.const_expr(self.dim == 0) else (1, 0)
        places = cute.composition(cute.make_layout(tile_shape_mn, stride=along), coords.layout)
        inside = limit - coords[0][1 - self.dim]
        outside = -math.inf if cutlass.const_expr(self.combine == "max") else 0.0
        for i in cutlass.range(cute.size(frag), unroll_full=True):
            frag[i] = frag[i] if cute.crd2idx(i, places) < inside else outside

    @cute.jit
    def fn_sink_flush(self, gemm, state, frag, scale=None):
        total = state
        if cutlass.const_expr(self.ragged):
            total, coords, limit = state
            self._mask_oob(frag, coords, limit, gemm.cta_tile_shape_mnk[:2])
        for i in cutlass.range(cute.size(total), unroll_full=True):
            if cutlass.const_expr(self.combine == "max"):
                total[i] = cute.arch.fmax(total[i], frag[i], nan=True)
            else:
                total[i] += frag[i]

    @cute.jit
    def _merge(self, values, others):
        if cutlass.const_expr(self.combine == "max"):
            return (cute.arch.fmax(values[0], others[0], nan=True),)
        return (values[0] + others[0],)


class ColumnSum(RowVecReduce):
    """The sum over m within a tile. `ragged`: M is no multiple of the tile."""

    def __init__(self, name, ragged):
        super().__init__(name)
        self.ragged = ragged

    def config_key(self):
        return (self.ragged, REDUCE_VERSION)

    def _mask_oob_active(self):
        return self.ragged

    _mask_oob = RowReduce._mask_oob


@cute.kernel
def finish_rows_kernel(tiles: cute.Tensor, out: cute.Tensor, op: cutlass.Constexpr, lanes: cutlass.Constexpr):
    """out[r] = sum, max or logsumexp of tiles[r, :]; `lanes` neighbouring threads share a row."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row, lane = (block * 256 + thread) // lanes, thread % lanes
    rows, count = tiles.shape
    mine = cutlass.min(row, rows - 1)
    best, total = cutlass.Float32(-math.inf), cutlass.Float32(0.0)
    if cutlass.const_expr(op == "sum"):
        for t in cutlass.range(lane, count, lanes, unroll=4):
            total += tiles[mine, t]
    else:
        for t in cutlass.range(lane, count, lanes, unroll=4):
            best = cute.arch.fmax(best, tiles[mine, t], nan=True)
        for step in cutlass.range_constexpr(int(math.log2(lanes))):
            best = cute.arch.fmax(best, cute.arch.shuffle_sync_bfly(best, offset=1 << step), nan=True)
        total = best
    if cutlass.const_expr(op == "logsumexp"):
        total = cutlass.Float32(0.0)
        finite = best if best > -math.inf else cutlass.Float32(0.0)
        for t in cutlass.range(lane, count, lanes, unroll=4):
            total += cute.math.exp(tiles[mine, t] - finite, fastmath=True)
    if cutlass.const_expr(op != "max"):
        for step in cutlass.range_constexpr(int(math.log2(lanes))):
            total += cute.arch.shuffle_sync_bfly(total, offset=1 << step)
    if cutlass.const_expr(op == "logsumexp"):
        total = best + cute.math.log(total)
    if row < rows and lane == 0:
        out[row] = total


@cute.kernel
def finish_columns_kernel(tiles: cute.Tensor, out: cute.Tensor, step: cutlass.Constexpr):
    """out[l, n] = the sum of tiles[l, :, step * n]; eight warps share 32 columns."""
    thread, _, _ = cute.arch.thread_idx()
    block, batch, _ = cute.arch.block_idx()
    lane, warp = thread % 32, thread // 32
    column = block * 32 + lane
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((32, 8)))
    total = cutlass.Float32(0.0)
    if column < out.shape[1]:
        for t in cutlass.range(warp, tiles.shape[1], 8, unroll=4):
            total += tiles[batch, t, column * step]
    shared[lane, warp] = total
    cute.arch.sync_threads()
    if warp == 0 and column < out.shape[1]:
        for w in cutlass.range_constexpr(1, 8):
            total += shared[lane, w]
        out[batch, column] = total


@cute.jit
def finish_rows(
    tiles: cute.Tensor, out: cute.Tensor, op: cutlass.Constexpr, lanes: cutlass.Constexpr, stream: CUstream
):
    blocks = cute.ceil_div(cute.size(out) * lanes, 256)
    finish_rows_kernel(tiles, out, op, lanes).launch(grid=(blocks, 1, 1), block=(256, 1, 1), stream=stream)


@cute.jit
def finish_columns(tiles: cute.Tensor, out: cute.Tensor, step: cutlass.Constexpr, stream: CUstream):
    grid = (cute.ceil_div(out.shape[1], 32), out.shape[0], 1)
    finish_columns_kernel(tiles, out, step).launch(grid=grid, block=(256, 1, 1), stream=stream)


@jit_cache
def ucutlass_finish(columns, *how):
    """The compiled second half of a reduction, for any sizes; the last of `how` names the text above in the cache."""
    sizes = [cute.sym_int() for _ in range(3)]
    shapes = ((sizes[0], sizes[1], sizes[2]), (sizes[0], cute.sym_int())) if columns else (sizes[:2], sizes[:1])
    fakes = [make_fake_tensor(cutlass.Float32, tuple(s), 1, leading_dim=len(s) - 1) for s in shapes]
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    kernel = finish_columns if columns else finish_rows
    return cute.compile(kernel, *fakes, *how[:-1], stream, options="--enable-tvm-ffi")


class Rows:
    """Combines what each tile left of a row: sum, max or logsumexp."""

    def __init__(self, op, tiles):
        lanes = 1
        while lanes < min(tiles, 32):
            lanes *= 2
        self.key = (False, op, lanes, REDUCE_VERSION)

    def plan(self):
        self.kernel = ucutlass_finish(*self.key)

    def __call__(self, tiles, out):
        self.kernel(tiles.view(-1, tiles.shape[-1]), out.view(-1))


class Columns:
    """Adds what each tile left of a column; of a product of pairs, of every second one."""

    def __init__(self, step=1):
        self.key = (True, step, REDUCE_VERSION)

    def plan(self):
        self.kernel = ucutlass_finish(*self.key)

    def __call__(self, tiles, out):
        self.kernel(tiles if tiles.ndim == 3 else tiles[None], out.view(-1, out.shape[-1]))


def reducing(stage):
    """The same stage with reductions: each tile leaves its part, and a small kernel for each result combines them."""

    class Reducing(stage):
        def __init__(self, epilogue, finish, **config):
            super().__init__(epilogue, **config)
            self.finish = finish

        def plan(self, A, B, D, operands, *more):
            for one in self.finish.values():
                one.plan()
            return super().plan(A, B, D, operands, *more)

        def __call__(self, A, B, D, operands, *more):
            super().__call__(A, B, D, operands, *more)
            for name, one in self.finish.items():
                one(operands[name], operands[name + " whole"])

    return Reducing
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

WATCHED = '''\
class Watched(ColVecReduce):
    """Raises the guard's flag where the largest magnitude that a row of a tile stores is neither 0 nor within
    [2^-9, 65504]. `ragged`: N is no multiple of the tile, and what lies past the edge must not count."""

    sink_alloc_shape = None  # one flag, whatever the sizes

    def __init__(self, name, ragged):
        super().__init__(name, "max_abs")
        self.ragged = ragged

    def config_key(self):
        return (self.ragged, WATCHED_VERSION)

    def host_fake_arg(self, key, fctx):
        return cute.runtime.make_fake_tensor(cutlass.Int32, (1,), stride=(1,))

    def to_params(self, gemm, args):
        return {self.name: getattr(args, self.name)}

    def _smem_warps(self, warps):
        return 0

    def _mask_oob_active(self):
        return self.ragged

    @cute.jit
    def fn_sink_flush(self, gemm, state, frag):
        most = state
        if cutlass.const_expr(self.ragged):
            most, coords, limit = state
            places = cute.composition(
                cute.make_layout(gemm.cta_tile_shape_mnk[:2], stride=(0, 1)), coords.layout
            )
            inside = limit - coords[0][1]
            for i in cutlass.range(cute.size(frag), unroll_full=True):
                frag[i] = frag[i] if cute.crd2idx(i, places) < inside else 0.0
        for i in cutlass.range(cute.size(frag), unroll_full=True):
            most[i] = cute.arch.fmax(most[i], cute.math.abs(frag[i]), nan=True)

    @cute.jit
    def end_loop_stage(self, gemm, param, state, at, epi_tile, tiled_copy_t2r, tiled_copy_r2s, tidx):
        staged = None
        subtiles = cute.zipped_divide(cute.make_layout(gemm.cta_tile_shape_mnk[:2]), epi_tile).shape[1]
        if cutlass.const_expr(at[1] == subtiles[1] - 1):  # the rows are whole
            most = state[0][None, None, None, at[0], at[1]]
            whole = cute.make_identity_tensor(gemm.cta_tile_shape_mnk[:2])
            places = partition_for_epilogue(whole, epi_tile, tiled_copy_r2s, tidx, True)
            rows = convert_layout_zero_stride(places[None, None, None, at[0], at[1]], most.layout)[None, 0]
            staged = (False, (convert_layout_zero_stride(most, most.layout)[None, 0], rows))
        return staged

    @cute.jit
    def end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager):
        most, rows = staged
        inside = varlen_manager.len_m(tile_coord_mnkl[3]) - tile_coord_mnkl[0] * gemm.cta_tile_shape_mnk[0]
        for i in cutlass.range(cute.size(most), unroll_full=True):
            largest = most[i]
            for step in cutlass.range_constexpr(2):  # the four lanes of a row
                other = cute.arch.shuffle_sync_bfly(largest, offset=1 << step)
                largest = cute.arch.fmax(largest, other, nan=True)
            fits = (largest >= 2.0**-9) & (largest <= 65504.0)  # no NaN does
            if (rows[i][0] < inside) & (largest != 0.0) & (fits == False):  # noqa: E712
                param[0] = cutlass.Int32(1)
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


def version(text: str) -> str:
    """A short name of a part's text, for cache keys."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def versioned(name: str, text: str) -> str:
    """A part with its own version above it."""
    return f'{name} = "{version(text)}"  # part of the cache key, beside quack\'s\n\n\n{text}'
