"""The text of generated modules that convolve on the tensor cores: one kernel class for every convolution.

What a stage needs (windows, views, strides, tile) is decided in conv.py and comes as the class's arguments.
"""

from __future__ import annotations

import hashlib

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

CONV = '''\
SWIZZLES = {8: "INTER", 16: "SW32", 32: "SW64", 64: "SW128"}  # by the 16-bit elements in a row of shared memory


class ConvKernel:
    """A convolution as an implicit GEMM on warp-group MMA: a block computes a box of pixels by `tile_n` channels.

    A step of K is `parts` boxes of `run_box` channels, each at one window position. TMA fetches the box of input pixels
    that meets the output box there; what lies outside of the image arrives as zeros, and that is the padding.
    Spatial tuples are innermost first: w, h, d.

    views      (first element, extents, strides) of x over (channels, w, h, d, images): one for each remainder of the
               stride that a window position has, `remainders` says which.
    axes       a window axis: positions, input pixel of the first, step to the next, stride, weight of its remainder;
               and where its positions lie in w: the first, step, distance.
    run        channels at one window position; taps_w: window positions that w has.
    out        output pixels; strides over (image, channel, w, h, d) of each result and of each tensor read, with the
               first element before them.
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
        self.tiles_n = -(-self.channels // self.tile_n)
        self.a_box = (self.run_box, *self.box, 1)
        # Modes of x where a coordinate other than 0 occurs.
        self.reached = [i + 1 for i in range(3) if (*self.axes[i][:2], self.box[i], self.out[i]) != (1, 0, 1, 1)]
        if self.w_along_c:
            self.b_box, self.cuts, self.b_atom = (self.run_box, 1, self.tile_n, 1), 1, "K_" + SWIZZLES[self.run_box]
        else:
            wide = next(n for n in (64, 32, 16, 8) if self.tile_n % n == 0)
            self.b_box, self.cuts, self.b_atom = (wide, 1, self.run_box, 1), self.tile_n // wide, "MN_" + SWIZZLES[wide]

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
        kinds, dtype = warpgroup.SmemLayoutAtomKind, x.element_type
        atom = warpgroup.make_smem_layout_atom(getattr(kinds, "K_" + SWIZZLES[self.run_box]), dtype)
        sa = cute.tile_to_shape(atom, (self.pixels, self.depth, self.stages), order=(0, 1, 2))
        atom = warpgroup.make_smem_layout_atom(getattr(kinds, self.b_atom), dtype)
        order = (0, 1, 2) if self.w_along_c else (1, 0, 2)
        sb = cute.tile_to_shape(atom, (self.tile_n, self.depth, self.stages), order=order)
        mma = make_trivial_tiled_mma(
            dtype,
            dtype,
            OperandMajorMode.K,
            OperandMajorMode.K if self.w_along_c else OperandMajorMode.MN,
            cutlass.Float32,
            (self.warp_groups, 1, 1),
            (64, self.tile_n),
        )
        views = [self.tma(x, view, self.a_box, sa.inner, self.reached) for view in self.views]
        weights = self.tma(w, (0, *self.w_view), self.b_box, sb.inner)

        @cute.struct
        class Shared:
            barriers: cute.struct.MemRange[cutlass.Int64, 2 * self.stages]
            a: cute.struct.Align[cute.struct.MemRange[dtype, cute.cosize(sa)], 1024]
            b: cute.struct.Align[cute.struct.MemRange[dtype, cute.cosize(sb)], 1024]

        self.shared = Shared
        blocks = self.tiles_n * self.groups * self.tiles[0] * self.tiles[1] * self.tiles[2] * self.images
        self.kernel(
            tuple(atom for atom, _ in views), tuple(view for _, view in views), *weights, mma, sa, sb, outs, reads
        ).launch(
            grid=(blocks, 1, 1),
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
        strides = tuple(cute.assume(cutlass.Int64(n), divby=8) if i in kept else n for i, n in enumerate(strides))
        source = cute.make_tensor(tensor.iterator + first, cute.make_layout(extents, stride=strides))
        slot = cute.make_composed_layout(swizzle, 0, self.slots(box, 1)[0])
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), source, slot, box)

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
        first = block % self.tiles_n * self.tile_n  # blocks that read the same pixels run side by side
        block = block // self.tiles_n
        group = block % self.groups
        block = block // self.groups
        q = [0, 0, 0]
        for i in cutlass.range_constexpr(3):
            q[i] = block % self.tiles[i] * self.box[i]
            block = block // self.tiles[i]
        at = (group, first, q, block)

        storage = SmemAllocator().allocate(self.shared)
        pipe = pipeline.PipelineTmaAsync.create(
            barrier_storage=storage.barriers.data_ptr(),
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4 * self.warp_groups),
            tx_count=(self.pixels + self.tile_n) * self.depth * 2,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        if warp == 4 * self.warp_groups:
            slot, places = self.slots(self.a_box, 1)
            a = storage.a.get_tensor(cute.append(cute.group_modes(slot, 0, 5), places), swizzle=a_smem.inner)
            slot, places = self.slots(self.b_box, self.cuts)
            b = storage.b.get_tensor(cute.append(cute.group_modes(slot, 0, 4), places), swizzle=b_smem.inner)
            self.produce(loads, views, load_w, weights, a, b, pipe, at)
        else:
            a = storage.a.get_tensor(a_smem.outer, swizzle=a_smem.inner)
            b = storage.b.get_tensor(b_smem.outer, swizzle=b_smem.inner)
            self.consume(mma, a, b, pipe, thread, outs, reads, at)

    @cute.jit
    def produce(self, loads, views, load_w, weights, a, b, pipe, at):
        """The producer warp: boxes of x and w for every step, as fast as the stages become free."""
        group, first, q, image = at
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
        for step in cutlass.range(self.steps, unroll=1):
            pipe.producer_acquire(state)
            barrier = pipe.producer_get_barrier(state)
            for part in cutlass.range_constexpr(self.parts):
                number = step * self.parts + part
                tap = number // self.blocks
                # Past the last window position both boxes are fetched from beyond the last channel: zeros.
                c = number % self.blocks * self.run_box + tap // self.taps * (self.groups * self.run)
                rest, tap_w, remainder, pixel = tap, 0, 0, [0, 0, 0]
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
                    if cutlass.const_expr(len(self.views) == 1):
                        self.fetch(loads[v], views[v], source, self.a_box, slot, barrier)
                    else:
                        if remainder == self.remainders[v]:
                            self.fetch(loads[v], views[v], source, self.a_box, slot, barrier)
                for cut in cutlass.range_constexpr(self.cuts):
                    if cutlass.const_expr(self.w_along_c):
                        source = (c, tap_w, first, group)
                    else:
                        source = (first + cut * self.b_box[0], tap_w, group * self.run + c, 0)
                    self.fetch(load_w, weights, source, self.b_box, b[None, (part, cut, state.index)], barrier)
            pipe.producer_commit(state)
            state.advance()
        pipe.producer_tail(state)

    def fetch(self, load, source, at, box, slot, barrier):
        """One TMA box from coordinate `at` of `source`."""
        tile = cute.local_tile(cute.domain_offset(at, source), box, (0,) * len(box))
        tile = cute.group_modes(tile, 0, len(box))
        to, of = cpasync.tma_partition(load, 0, cute.make_layout(1), cute.group_modes(slot, 0, cute.rank(slot)), tile)
        cute.copy(load, of, to, tma_bar_ptr=barrier)

    @cute.jit
    def consume(self, mma, a, b, pipe, thread, outs, reads, at):
        """The consumer warp groups: each multiplies its rows of the tile, and takes them through the epilogue."""
        warp_group = mma.get_slice(cute.arch.make_warp_uniform(thread // 128) * 128)
        ra = mma.make_fragment_A(warp_group.partition_A(a))
        rb = mma.make_fragment_B(warp_group.partition_B(b))
        acc = cute.make_rmem_tensor(mma.partition_shape_C((self.pixels, self.tile_n)), cutlass.Float32)
        acc.fill(0.0)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        done = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        warpgroup.fence()
        for step in cutlass.range(self.steps, unroll=1):
            pipe.consumer_wait(read)
            for k in cutlass.range_constexpr(self.depth // 16):
                cute.gemm(mma, acc, ra[None, None, k, read.index], rb[None, None, k, read.index], acc)
            warpgroup.commit_group()
            if step > 0:  # the step before is over once one group alone is in flight
                warpgroup.wait_group(1)
                pipe.consumer_release(done)
                done.advance()
            read.advance()
        warpgroup.wait_group(0)
        pipe.consumer_release(done)
        self.store(mma, acc, thread, outs, reads, at)

    @cute.jit
    def store(self, mma, acc, thread, outs, reads, at):
        """Accumulators through the epilogue to their elements of the results."""
        group, first, q, image = at
        mine = mma.get_slice(thread).partition_C(cute.make_identity_tensor((self.pixels, self.tile_n)))
        bw, bh, _ = self.box
        rows = []
        for m in cutlass.range_constexpr(cute.size(acc, mode=[1])):
            for r in cutlass.range_constexpr(2):
                row = mine[(0, r, 0), m, 0][0]
                rows.append((m, r, (q[0] + row % bw, q[1] + row // bw % bh, q[2] + row // (bw * bh))))
        values = [None] * len(reads)
        for i in cutlass.range_constexpr(len(reads)):
            if cutlass.const_expr(not any(self.reads[i])):
                values[i] = reads[i][0].to(cutlass.Float32)
        for n in cutlass.range_constexpr(self.tile_n // 8):
            for half in cutlass.range_constexpr(2):
                column = first + mine[(half, 0, n), 0, 0][1]
                channel = group * self.channels + cutlass.min(column, self.channels - 1)
                for i in cutlass.range_constexpr(len(reads)):
                    if cutlass.const_expr(any(self.reads[i]) and not any(self.reads[i][3:])):
                        values[i] = self.element(reads[i], self.reads[i], image, channel, q)[0].to(cutlass.Float32)
                for m, r, pixel in rows:
                    inside = column < self.channels
                    for i in cutlass.range_constexpr(3):
                        inside = inside and pixel[i] < self.out[i]
                    if inside:
                        self.finish(acc[(half, r, n), m, 0], values, outs, reads, image, channel, pixel)

    def finish(self, value, values, outs, reads, image, channel, pixel):
        """One accumulator through the epilogue to its element of each result."""
        values = list(values)
        for i, tensor in enumerate(reads):
            if any(self.reads[i][3:]):
                values[i] = self.element(tensor, self.reads[i], image, channel, pixel)[0].to(cutlass.Float32)
        for tensor, result in zip(outs, self.epilogue(value, *values), strict=True):
            self.element(tensor, self.strides, image, channel, pixel)[0] = result.to(tensor.element_type)

    def element(self, tensor, strides, image, channel, pixel):
        """One element of a tensor; in 64 bits, as a result may have more than 2^31 of them."""
        first, *along = strides
        offset = first + channel * along[1] + pixel[0] * along[2] + pixel[1] * along[3] + pixel[2] * along[4]
        return cute.make_tensor(tensor.iterator + (cutlass.Int64(image) * along[0] + offset), cute.make_layout(1))


def flat(tensor):
    """The memory of a dense tensor from its first element: kernels bring layouts of their own."""
    return tensor.as_strided((min(tensor.numel(), 2**30),), (1,))


@jit_cache
def ucutlass_conv(name, dtypes, version):
    """The compiled launch `name`. `version` is the digest of all that it is made of: the cache goes by it."""
    tensors = [
        cute.runtime.make_fake_tensor(t, (cute.sym_int(),), stride=(1,), assumed_align=16 if i < 2 else t.width // 8)
        for i, t in enumerate(dtypes)
    ]
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(globals()[name], *tensors, stream, options="--enable-tvm-ffi")


class ConvStage:
    """The launches of one convolution: compiled, or found in the cache, once."""

    def __init__(self, name, dtypes, version):
        self.key, self.kernel = (name, dtypes, version), None

    def plan(self, *tensors):
        return ucutlass_conv(*self.key)

    def __call__(self, *tensors):
        if self.kernel is None:
            self.kernel = self.plan(*tensors)
        self.kernel(*(flat(t) for t in tensors))
'''

VERSION = hashlib.sha256(CONV.encode()).hexdigest()[:12]
