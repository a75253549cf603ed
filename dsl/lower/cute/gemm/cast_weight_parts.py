"""The text that a product adds whose weight is cast as it is read (dsl.rules.cute.cast_weight).

It uses the place that quack has for packed weights: a first factor whose layout in memory the transform knows, and
whose registers it fills, sixteen values of K at a time, while the tensor cores multiply the sixteen before.
"""

CAST_WEIGHT = '''\
class WeightLines(TransformA):
    """An f32 weight in shared memory, as lines of 32 values, rounded as each thread loads what it multiplies."""

    owns_a_layout = True
    tile_k = 64

    def __init__(self, gemm):
        self.gemm = gemm

    def sizes(self):
        """Of a stage: values of a line, rows, lines of a row."""
        return 32, self.gemm.cta_tile_shape_mnk[0], self.tile_k // 32

    def a_bytes_per_stage(self):
        return self.gemm.cta_tile_shape_mnk[0] * self.tile_k * 4

    def make_a_smem_layout_staged(self, stages):
        return cute.make_ordered_layout((*self.sizes(), stages), order=(0, 1, 2, 3))

    def make_a_tma(self, weight):
        plain = cute.slice_(self.gemm.a_smem_layout_staged, (None, None, None, 0))
        turned = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, plain)
        return self.gemm._make_tma_atoms_and_tensors(weight, turned, self.sizes(), self.gemm.cluster_shape_mnk[1])

    def a_gmem_slice(self, weight, tile, batch):
        return cute.local_tile(weight, self.sizes(), (0, tile[0], None))

    @cute.jit
    def make_copy_block(self, tiled_mma, sA, tCrA, tidx, warp_group_idx, sAux=None, mAux=None):
        gemm = self.gemm
        line, rows, lines = self.sizes()
        pairs = cute.make_tensor(
            cute.recast_ptr(sA.iterator, dtype=cutlass.Float32),
            cute.make_ordered_layout((2, line // 2, rows, lines, gemm.ab_stage), order=(0, 1, 2, 3, 4)),
        )
        thread = tidx % 128
        first = (thread // 32) * 16 + (thread % 32) // 4  # the thread's row among the 64 of its warp group
        quad = thread % 4
        odd = first % 2
        groups = gemm.atom_layout_mnk[0]
        blocks = cutlass.const_expr(cute.size(tCrA.shape[1]))
        wide = cute.make_rmem_tensor((2, 4, 2), cutlass.Float32)
        narrow = cute.make_rmem_tensor((2, 4, 2), gemm.mma_a_dtype)
        both = cute.recast_tensor(narrow, cutlass.Int32)
        later = cute.make_rmem_tensor((4, blocks), cutlass.Int32)
        into = cute.recast_tensor(tCrA, cutlass.Int32)
        second = cutlass.Int32(0) - odd  # all bits set in odd rows

        def copy_block(stage, step, k_tile=None):
            """Fill the registers of 16 values of K. A line holds two such steps. TMA turns a line's 16-byte pieces by
            its row, so neighbouring rows would meet in one bank: odd rows load the two steps in the other order."""
            for block in cutlass.range_constexpr(blocks):
                if cutlass.const_expr(step % 2 == 0):
                    row = (block * groups + warp_group_idx) * 64 + first
                    for turn in cutlass.range_constexpr(2):
                        for part in cutlass.range_constexpr(4):  # the halves of K, and rows 8 apart
                            half, below = part // 2, part % 2
                            piece = ((turn ^ odd) * 4 + half * 2 + quad // 2) ^ (first % 8)
                            source = pairs[None, piece * 2 + quad % 2, row + 8 * below, step // 2, stage]
                            cute.autovec_copy(source, wide[None, part, turn])
                    narrow.store(wide.load().to(gemm.mma_a_dtype))
                for part in cutlass.range_constexpr(4):
                    if cutlass.const_expr(step % 2 == 0):
                        a, b = both[0, part, 0], both[0, part, 1]
                        into[(0, part % 2, part // 2), block, step] = a ^ ((a ^ b) & second)
                        later[part, block] = b ^ ((a ^ b) & second)
                    else:
                        into[(0, part % 2, part // 2), block, step] = later[part, block]

        return copy_block


class CastWeight(TransformModBase):
    """What quack asks about a weight [n, k] in f32 whose values are rounded to `dtype` as they are read."""

    def __init__(self, dtype):
        self.tile_k, self.mma_dtype, self.promote = 64, dtype, False
        self.semantic_digest = f"{CAST_WEIGHT_VERSION} {dtype}"

    @property
    def owned_fmt(self):
        return self

    def __call__(self, gemm):
        return WeightLines(gemm)

    def padded_n(self, weight):
        return weight.shape[0]

    def lines(self, weight):
        n, k = weight.shape
        return TransformAOperand(weight.view(n, k // 32, 32).permute(2, 0, 1))

    def resolve_operands(self, x, weight, scales, tile_m, tile_k):
        return ResolvedOperands(self.lines(weight), x, x, tile_k=self.tile_k, n_gemm=weight.shape[0])

    def compile_dims(self, operand):
        line, n, lines = operand.blob.shape
        return n, line * lines

    def fake_operands(self, n, k, tile_m):
        shape, stride = (32, n, k // 32), (1, k, 32)
        return TransformAOperand(cute.runtime.make_fake_tensor(cutlass.Float32, shape, stride=stride, assumed_align=16))


class CastWeightStage(GemmStage):
    """x @ weight.T: quack's first factor is the weight, so it computes the transposed result, tile by tile."""

    def __call__(self, A, B, D, operands):
        if self.planned is None:
            self.planned = self.plan(A, B, D, operands)
        run_gemm_epi_plan(self.planned, self.config["transform_a"].lines(B), A, D, None, operands)
'''
