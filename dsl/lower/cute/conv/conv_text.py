"""The text of the convolution on the tensor cores: one kernel class for every convolution.

conv_launches.py and conv_tiles.py choose the windows, views, strides and the tile of a stage, which are arguments of
the class. conv_store.py has the text that stores the results.
"""

from __future__ import annotations

import hashlib

from dsl.lower.cute.conv.conv_store import STORE

IMPORTS: tuple[tuple[str, str], ...] = (
    ("cuda.bindings.driver", "CUstream"),
    ("cutlass", "pipeline"),
    ("cutlass.cute.nvgpu", "OperandMajorMode"),
    ("cutlass.cute.nvgpu", "cpasync"),
    ("cutlass.cute.nvgpu", "warpgroup"),
    ("cutlass.memory", "SmemAllocator"),
    ("cutlass.utils.hopper_helpers", "make_trivial_tiled_mma"),
    ("quack.cache", "jit_cache"),
)
MODULES: tuple[str, ...] = ("cutlass", "cutlass.cute as cute", "torch")

CONV = (
    STORE
    + '''

\
SWIZZLES = {16: "INTER", 32: "SW32", 64: "SW64", 128: "SW128"}  # by the bytes in a row of shared memory


class ConvKernel(ConvResults):
    """A convolution as an implicit GEMM on warp-group MMA: a tile is a box of pixels by `tile_n` columns.

    As many blocks as the device holds at once (`grid`) take the tiles by turns: the producer warp fetches a tile's
    first boxes while the consumers are still writing the one before. A step of K is `parts` boxes of `run_box`
    channels, each at one window position. TMA fetches the box of input pixels that meets the output box there; what
    lies outside of the image arrives as zeros, and that is the padding.
    Spatial tuples are innermost first: w, h, d.

    views      (first element, extents, strides) of x over (channels, w, h, d, images): one for each remainder of the
               stride that a window position has, `remainders` says which.
    axes       a window axis: positions, input pixel of the first, step to the next, stride, weight of its remainder;
               and where its positions lie in w: the first, step, distance.
    void       views that have no pixel: what is fetched from them lies beyond the last channel, and is zeros.
    run        channels at one window position.
    unit       bytes of an element of x and w: 2, or 4 for f32, which TMA rounds to tf32 on the way.
    seen       phases of the result's pixels along w, which are columns beside each other (transposed, with a stride):
               for each and for each position along w the position in w, or -1. Empty: one phase, axes say it all.
    """

    def __init__(self, epilogue, **config):
        self.epilogue = epilogue
        self.__dict__.update(config)
        self.pixels = self.box[0] * self.box[1] * self.box[2]
        self.depth = self.parts * self.run_box
        self.taps = self.axes[0][0] * self.axes[1][0] * self.axes[2][0]
        self.blocks = -(-self.run // self.run_box)
        self.steps = -(-self.taps * self.blocks // self.parts)
        self.tiles = [-(-size // edge) for size, edge in zip(self.out, self.box)]
        self.phases = max(1, len(self.seen))
        self.columns = self.tile_n // self.phases  # channels in a tile
        self.tiles_n = -(-self.channels // self.columns)
        self.count = self.tiles_n * self.groups * self.tiles[0] * self.tiles[1] * self.tiles[2] * self.images
        self.a_box = (self.run_box, *self.box, 1)
        # Modes of x where a coordinate other than 0 occurs.
        self.reached = [i + 1 for i in range(3) if (*self.axes[i][:2], self.box[i], self.out[i]) != (1, 0, 1, 1)]
        if self.w_along_c:
            self.b_box, self.cuts, self.b_atom = (self.run_box, 1, self.tile_n, 1), 1, self.along_k()
        else:
            wide = next(n for n in (64, 32, 16, 8) if self.columns % n == 0)
            self.b_box, self.cuts = (wide, 1, self.run_box, 1), self.tile_n // wide
            self.b_atom = "MN_" + SWIZZLES[2 * wide]

    def along_k(self):
        return "K_" + SWIZZLES[self.run_box * self.unit]

    def slots(self, box, cuts):
        """A box in shared memory, its first edge contiguous, and its place: (part, cut, stage)."""
        strides, size = [], 1
        for edge in box:
            strides.append(size if edge > 1 else 0)
            size *= edge
        # Boxes of one cut lie side by side along K, cuts (along n, where w has n contiguous) one after the other.
        places = cute.make_layout(
            (self.parts, cuts, self.stages), stride=(size, size * self.parts, size * self.parts * cuts)
        )
        return cute.make_layout(box, stride=tuple(strides)), places

    def launch(self, x, w, outs, reads, stream):
        kinds, dtype = warpgroup.SmemLayoutAtomKind, x.element_type if self.unit == 2 else cutlass.TFloat32
        atom = warpgroup.make_smem_layout_atom(getattr(kinds, self.along_k()), dtype)
        sa = cute.tile_to_shape(atom, (self.pixels, self.depth, self.stages), order=(0, 1, 2))
        atom = warpgroup.make_smem_layout_atom(getattr(kinds, self.b_atom), dtype)
        order = (0, 1, 2) if self.w_along_c else (1, 0, 2)
        sb = cute.tile_to_shape(atom, (self.tile_n, self.depth, self.stages), order=order)
        groups = (self.warp_groups, 1, 1)
        if self.unit == 2:
            major = OperandMajorMode.K if self.w_along_c else OperandMajorMode.MN
            tile = (64, self.tile_n)
            mma = make_trivial_tiled_mma(dtype, dtype, OperandMajorMode.K, major, cutlass.Float32, groups, tile)
        else:
            mma = cute.make_tiled_mma(tensor_floats(self.tile_n), groups)
        views = [self.tma(x, view, self.a_box, sa.inner, self.reached) for view in self.views]
        weights = self.tma(w, (0, *self.w_view), self.b_box, sb.inner, (1,) if self.seen else ())

        @cute.struct
        class Shared:
            barriers: cute.struct.MemRange[cutlass.Int64, 2 * self.stages]
            a: cute.struct.Align[cute.struct.MemRange[dtype, cute.cosize(sa)], 1024]
            b: cute.struct.Align[cute.struct.MemRange[dtype, cute.cosize(sb)], 1024]
            staged: cute.struct.Align[
                cute.struct.MemRange[self.staged_type(outs[0].element_type), self.staged_size()], 128
            ]

        self.shared = Shared
        self.kernel(
            tuple(atom for atom, _ in views), tuple(view for _, view in views), *weights, mma, sa, sb, outs, reads
        ).launch(
            grid=(min(self.count, self.grid), 1, 1),
            block=(128 * self.warp_groups + 32, 1, 1),
            min_blocks_per_mp=self.resident,
            preferred_smem_carveout=100,  # in percent
            stream=stream,
        )

    def tma(self, tensor, view, box, swizzle, kept=()):
        """The TMA load of a box of a view of `tensor`; modes `kept` are read outside of their extents, too."""
        first, extents, strides = view
        # What is known statically would be folded (an extent of 1 loses its coordinate, a box's full width joins the
        # next axis), and with that the zeros around the image would be lost.
        extents = tuple(cutlass.Int32(n) if i in kept else n for i, n in enumerate(extents))
        units = 16 // self.unit
        strides = tuple(cute.assume(cutlass.Int64(n), divby=units) if i in kept else n for i, n in enumerate(strides))
        source = cute.make_tensor(tensor.iterator + first, cute.make_layout(extents, stride=strides))
        slot = cute.make_composed_layout(swizzle, 0, self.slots(box, 1)[0])
        kind = None if self.unit == 2 else cutlass.TFloat32
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), source, slot, box, internal_type=kind)

    @cute.kernel
    def kernel(
        self,
        loads: tuple,
        views: tuple,
        load_w: cute.CopyAtom,
        weights: cute.Tensor,
        mma: cute.TiledMma,
        a_smem: cute.ComposedLayout,
        b_smem: cute.ComposedLayout,
        outs: tuple,
        reads: tuple,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        block, _, _ = cute.arch.block_idx()
        storage = SmemAllocator().allocate(self.shared)
        pipe = pipeline.PipelineTmaAsync.create(
            barrier_storage=storage.barriers.data_ptr(),
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4 * self.warp_groups),
            tx_count=(self.pixels + self.tile_n) * self.depth * self.unit,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        if warp == 4 * self.warp_groups:
            slot, places = self.slots(self.a_box, 1)
            a = storage.a.get_tensor(cute.append(cute.group_modes(slot, 0, 5), places), swizzle=a_smem.inner)
            slot, places = self.slots(self.b_box, self.cuts)
            b = storage.b.get_tensor(cute.append(cute.group_modes(slot, 0, 4), places), swizzle=b_smem.inner)
            state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
            for tile in cutlass.range(block, self.count, min(self.count, self.grid), unroll=1):
                state = self.produce(loads, views, load_w, weights, a, b, pipe, state, self.place(tile))
            pipe.producer_tail(state)
        else:
            a = storage.a.get_tensor(a_smem.outer, swizzle=a_smem.inner)
            b = storage.b.get_tensor(b_smem.outer, swizzle=b_smem.inner)
            mma.set(warpgroup.Field.ACCUMULATE, True)
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
            done = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
            for tile in cutlass.range(block, self.count, min(self.count, self.grid), unroll=1):
                acc = cute.make_rmem_tensor(mma.partition_shape_C((self.pixels, self.tile_n)), cutlass.Float32)
                read, done = self.consume(mma, a, b, acc, pipe, read, done, thread)
                self.store(mma, acc, storage.staged.data_ptr(), thread, outs, reads, self.place(tile))

    def place(self, tile):
        """Where a tile lies: group, first channel, first pixel, image. Tiles of the same pixels follow each other."""
        first = tile % self.tiles_n * self.columns
        tile = tile // self.tiles_n
        group = tile % self.groups
        tile = tile // self.groups
        q = [0, 0, 0]
        for i in range(3):
            q[i] = tile % self.tiles[i] * self.box[i]
            tile = tile // self.tiles[i]
        return group, first, q, tile

    @cute.jit
    def produce(self, loads, views, load_w, weights, a, b, pipe, state, at):
        """The producer warp: boxes of x and w for every step of a tile, as fast as the stages become free."""
        group, first, q, image = at
        for step in cutlass.range(self.steps, unroll=1):
            pipe.producer_acquire(state)
            barrier = pipe.producer_get_barrier(state)
            for part in cutlass.range_constexpr(self.parts):
                number = step * self.parts + part
                tap = number // self.blocks
                # Past the last window position both boxes are fetched from beyond the last channel: zeros.
                c = number % self.blocks * self.run_box + tap // self.taps * (self.groups * self.run)
                rest, tap_w, remainder, pixel = tap, 0, 0, [0, 0, 0]
                along_w = tap % self.axes[0][0]
                for i in cutlass.range_constexpr(3):
                    count, start, advance, stride, weight, w_start, w_advance, w_distance = self.axes[i]
                    position = rest % count
                    rest = rest // count
                    place = start + position * advance
                    if cutlass.const_expr(stride > 1):
                        up = -(min(0, start) // stride)  # keeps the dividend positive
                        remainder = remainder + (place + up * stride) % stride * weight
                        place = (place + up * stride) // stride - up
                    pixel[i] = q[i] + place
                    tap_w = tap_w + (w_start + position * w_advance) * w_distance
                slot = a[None, (part, 0, state.index)]
                for v in cutlass.range_constexpr(len(self.views)):
                    source = (group * self.run + c, pixel[0], pixel[1], pixel[2], image)
                    if cutlass.const_expr(v in self.void):
                        source = (self.views[v][1][0], *source[1:])
                    if cutlass.const_expr(len(self.views) == 1):
                        self.fetch(loads[v], views[v], source, self.a_box, slot, barrier)
                    else:
                        if remainder == self.remainders[v]:
                            self.fetch(loads[v], views[v], source, self.a_box, slot, barrier)
                for cut in cutlass.range_constexpr(self.cuts):
                    if cutlass.const_expr(self.w_along_c):
                        source = (c, tap_w, first, group)
                    elif cutlass.const_expr(self.phases == 1):
                        source = (first + cut * self.b_box[0], tap_w, group * self.run + c, 0)
                    else:
                        phase, column = divmod(cut * self.b_box[0], self.columns)
                        source = (first + column, self.tap(phase, along_w, tap_w), group * self.run + c, 0)
                    self.fetch(load_w, weights, source, self.b_box, b[None, (part, cut, state.index)], barrier)
            pipe.producer_commit(state)
            state.advance()
        return state

    def tap(self, phase, position, others):
        """The window position in w that a phase sees at a position along w; out of all where it sees none: zeros."""
        outside = self.w_view[0][1]
        seen = [outside if s < 0 else s for s in self.seen[phase]]
        found = cutlass.Int32(seen[0])
        for i, s in enumerate(seen[1:], 1):
            found = cutlass.Int32(cutlass.select_(position == i, cutlass.Int32(s), found))
        return found + others

    def fetch(self, load, source, at, box, slot, barrier):
        """One TMA box from coordinate `at` of `source`."""
        tile = cute.local_tile(cute.domain_offset(at, source), box, (0,) * len(box))
        tile = cute.group_modes(tile, 0, len(box))
        to, of = cpasync.tma_partition(load, 0, cute.make_layout(1), cute.group_modes(slot, 0, cute.rank(slot)), tile)
        cute.copy(load, of, to, tma_bar_ptr=barrier)

    @cute.jit
    def consume(self, mma, a, b, acc, pipe, read, done, thread):
        """The consumer warp groups: each multiplies its rows of a tile."""
        warp_group = mma.get_slice(cute.arch.make_warp_uniform(thread // 128) * 128)
        ra = mma.make_fragment_A(warp_group.partition_A(a))
        rb = mma.make_fragment_B(warp_group.partition_B(b))
        acc.fill(0.0)
        warpgroup.fence()
        for step in cutlass.range(self.steps, unroll=1):
            pipe.consumer_wait(read)
            for k in cutlass.range_constexpr(self.depth * self.unit // 32):  # of 32 bytes an instruction
                cute.gemm(mma, acc, ra[None, None, k, read.index], rb[None, None, k, read.index], acc)
            warpgroup.commit_group()
            if step > 0:  # the step before is over once one group alone is in flight
                warpgroup.wait_group(1)
                pipe.consumer_release(done)
                done.advance()
            read.advance()
        warpgroup.wait_group(0)
        pipe.consumer_release(done)
        done.advance()
        return read, done


def flat(tensor):
    """The memory of a dense tensor from its first element: kernels bring layouts of their own."""
    return tensor.as_strided((min(tensor.numel(), 2**30),), (1,))


CONVOLUTIONS = {}  # what a version compiles: its launch function


@jit_cache
def ucutlass_conv(version, dtypes, aligned):
    """The compiled launch of `version`, the digest of all that it is made of but names: the cache goes by it.

    dtypes: of x, w, the results, the tensors read; the first `aligned` of them lie at multiples of 16 bytes.
    """
    tensors = [
        cute.runtime.make_fake_tensor(
            t, (cute.sym_int(),), stride=(1,), assumed_align=16 if i < aligned else t.width // 8
        )
        for i, t in enumerate(dtypes)
    ]
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(CONVOLUTIONS[version], *tensors, stream, options="--enable-tvm-ffi")


class ConvStage:
    """The launches of one convolution: compiled, or found in the cache, once."""

    def __init__(self, launch, dtypes, aligned, version):
        CONVOLUTIONS[version] = launch
        self.version, self.types, self.kernel = version, (dtypes, aligned), None

    def plan(self, *tensors):
        return ucutlass_conv(self.version, *self.types)

    def __call__(self, *tensors):
        if self.kernel is None:
            self.kernel = self.plan(*tensors)
        self.kernel(*(flat(t) for t in tensors))
'''
)

GATED = '''\
def behind_gate(kind, up):
    """A class of convolutions that run where the guard's flag is set (`up`), or where it is not. The flag is the last
    of `reads`."""

    class Gated(kind):
        kernel = gate(kind.kernel, lambda named: named["reads"][-1], up)

        def store(self, mma, acc, staged, thread, outs, reads, at):
            kind.store(self, mma, acc, staged, thread, outs, reads[:-1], at)

    return Gated
'''

VERSION = hashlib.sha256(CONV.encode()).hexdigest()[:12]
