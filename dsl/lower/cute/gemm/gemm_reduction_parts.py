"""The text that a product with reductions in its epilogue, or with a guard, adds to the generated module.

As in parts.py, each part is emitted only if a program uses it; see gemm_parts for its version.
"""

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
