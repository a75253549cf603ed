"""The text of the convolution that keeps its weights and a tile's whole window in shared memory.

dsl.rules.cute.whole_window says when it is taken and how its box lies. What is stored, and how, is that of every other
convolution on the tensor cores (conv_store.py, folds.py).
"""

from __future__ import annotations

WHOLE = '''\
class WholeWindow:
    """A convolution of stride 1 whose weights stay in shared memory; of x comes one box a tile, with the pixels of all
    window positions. Two teams of one warp group each take the tiles by turns: one multiplies while the other stores.

    The box lies by eights of channels, [channel // 8][d][h][w][8]. Each window position begins elsewhere in it.

    edges      pixels of the box of x along w, h and d.
    pitch      elements from one eight of channels to the next.
    teams      warp groups that take tiles by turns; stages: boxes of x.
    """

    def windows(self):
        """The box as an operand: (pixel, channel of a step, channels' step, position, stage)."""
        wide, high = 8 * self.edges[0], 8 * self.edges[0] * self.edges[1]
        counts, apart = zip(*((axis[0], axis[2]) for axis in self.axes))
        along = (8, wide, high)
        return cute.make_layout(
            (self.box, (8, self.run_box // 8), self.blocks, counts, self.stages),
            stride=(
                tuple(n if edge > 1 else 0 for n, edge in zip(along, self.box)),
                (1, self.pitch),
                self.pitch * self.run_box // 8,
                tuple(n * step if count > 1 else 0 for n, step, count in zip(along, apart, counts)),
                self.pitch * self.run // 8,
            ),
        )

    def barrier(self):
        """Of a team's warps."""
        team = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4
        cute.arch.barrier(barrier_id=1 + team, number_of_threads=128)

    def launch(self, x, w, outs, reads, stream):
        kinds, dtype = warpgroup.SmemLayoutAtomKind, x.element_type
        self.eights = warpgroup.make_smem_layout_atom(kinds.K_INTER, dtype).inner
        atom = warpgroup.make_smem_layout_atom(getattr(kinds, self.b_atom), dtype)
        sb = cute.tile_to_shape(atom, (self.tile_n, self.depth, self.steps), order=(0, 1, 2))
        major = OperandMajorMode.K
        mma = make_trivial_tiled_mma(dtype, dtype, major, major, cutlass.Float32, (1, 1, 1), (64, self.tile_n))
        load, view = self.tma(x, self.views[0], (8, *self.edges, 1), self.eights, self.reached)
        load_w, weights = self.tma(w, (0, *self.w_view), self.b_box, sb.inner)

        @cute.struct
        class Shared:
            barriers: cute.struct.MemRange[cutlass.Int64, 2 * self.stages + 2]
            b: cute.struct.Align[cute.struct.MemRange[dtype, cute.cosize(sb)], 1024]
            a: cute.struct.Align[cute.struct.MemRange[dtype, self.stages * self.run // 8 * self.pitch], 1024]
            staged: cute.struct.Align[
                cute.struct.MemRange[self.staged_type(outs[0].element_type), self.teams * self.staged_size()], 128
            ]

        self.shared = Shared
        self.kernel(load, view, load_w, weights, mma, sb, outs, reads).launch(
            grid=(min(-(-self.count // self.teams), self.grid), 1, 1),
            block=(128 * self.teams + 32, 1, 1),
            min_blocks_per_mp=1,
            preferred_smem_carveout=100,  # in percent
            stream=stream,
        )

    def pipe(self, barriers, stages, warps, elements):
        return pipeline.PipelineTmaAsync.create(
            barrier_storage=barriers,
            num_stages=stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, warps),
            tx_count=elements * self.unit,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )

    @cute.kernel
    def kernel(
        self,
        load: cute.CopyAtom,
        view: cute.Tensor,
        load_w: cute.CopyAtom,
        weights: cute.Tensor,
        mma: cute.TiledMma,
        b_smem: cute.ComposedLayout,
        outs: tuple,
        reads: tuple,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        storage = SmemAllocator().allocate(self.shared)
        barriers = storage.barriers.data_ptr()
        pixels = self.edges[0] * self.edges[1] * self.edges[2]
        boxes = self.pipe(barriers, self.stages, 4, pixels * self.run)
        held = self.pipe(barriers + 2 * self.stages, 1, 4 * self.teams, self.tile_n * self.depth * self.steps)
        if warp == 4 * self.teams:
            self.fetch_weights(load_w, weights, storage.b, b_smem.inner, held)
            slot = cute.group_modes(self.slots((8, *self.edges, 1), 1)[0], 0, 5)
            places = cute.make_layout(
                (self.run // 8, self.stages), stride=(self.pitch, self.pitch * self.run // 8)
            )
            a = storage.a.get_tensor(cute.append(slot, places), swizzle=self.eights)
            state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
            for tile in cutlass.range(block, self.count, blocks, unroll=1):
                state = self.fetch_box(load, view, a, boxes, state, self.place(tile))
            boxes.producer_tail(state)
        else:
            team = warp // 4
            a = storage.a.get_tensor(self.windows(), swizzle=self.eights)
            b = storage.b.get_tensor(b_smem.outer, swizzle=b_smem.inner)
            mma.set(warpgroup.Field.ACCUMULATE, True)
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
            if team == 1:
                read.advance()
            held.consumer_wait(pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 1))
            staged = storage.staged.data_ptr() + team * self.staged_size()
            for tile in cutlass.range(block + team * blocks, self.count, self.teams * blocks, unroll=1):
                acc = cute.make_rmem_tensor(mma.partition_shape_C((self.pixels, self.tile_n)), cutlass.Float32)
                read = self.consume_box(mma, a, b, acc, boxes, read)
                self.store(mma, acc, staged, thread % 128, outs, reads, self.place(tile))

    @cute.jit
    def fetch_weights(self, load, weights, memory, swizzle, pipe):
        """All weights, once a block."""
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 1)
        slot = self.slots(self.b_box, 1)[0]
        places = cute.make_layout((self.steps,), stride=(self.tile_n * self.depth,))
        b = memory.get_tensor(cute.append(cute.group_modes(slot, 0, 4), places), swizzle=swizzle)
        pipe.producer_acquire(state)
        barrier = pipe.producer_get_barrier(state)
        for step in cutlass.range(self.steps, unroll=1):
            source = (step % self.blocks * self.run_box, step // self.blocks, 0, 0)
            self.fetch(load, weights, source, self.b_box, b[None, (step,)], barrier)
        pipe.producer_commit(state)

    @cute.jit
    def fetch_box(self, load, view, a, pipe, state, at):
        """The pixels that all windows of a tile read, eight channels at a time."""
        _, _, q, image = at
        pipe.producer_acquire(state)
        barrier = pipe.producer_get_barrier(state)
        first = [q[i] + self.axes[i][1] for i in range(3)]
        for eight in cutlass.range_constexpr(self.run // 8):
            source = (8 * eight, *first, image)
            self.fetch(load, view, source, (8, *self.edges, 1), a[None, (eight, state.index)], barrier)
        pipe.producer_commit(state)
        state.advance()
        return state

    @cute.jit
    def consume_box(self, mma, a, b, acc, pipe, read):
        """A team: the products of a tile."""
        part = mma.get_slice(0)
        ra, rb = mma.make_fragment_A(part.partition_A(a)), mma.make_fragment_B(part.partition_B(b))
        pipe.consumer_wait(read)
        acc.fill(0.0)
        warpgroup.fence()
        for step in cutlass.range(self.steps, unroll=1):
            for k in cutlass.range_constexpr(self.depth * self.unit // 32):  # of 32 bytes an instruction
                of_step = ra[None, None, k, step % self.blocks, step // self.blocks, read.index]
                cute.gemm(mma, acc, of_step, rb[None, None, k, step], acc)
            warpgroup.commit_group()
        warpgroup.wait_group(0)
        pipe.consumer_release(read)
        for _ in cutlass.range_constexpr(self.teams):
            read.advance()
        return read


def whole_window(kind):
    """A class of convolutions with the products of WholeWindow and the results of `kind`."""

    class Whole(WholeWindow, kind):
        pass

    return Whole
'''

__all__ = ["WHOLE"]
