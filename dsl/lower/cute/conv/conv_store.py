"""The text that stores the results of a convolution.

A store directly from the registers writes one sector at a time (8 pixels, or 2 channels), and L2 limits it, not the
bandwidth: on an H200 each such access takes about 27 cycles of an SM. So tiles go through shared memory, a part at a
time, and are stored in whole rows. Only where a thread has several pixels that lie side by side, the phases of a
transposed convolution, they leave at once: there the same results took 0.97 to 1.0 times as long in f32, 0.81 in f16.
"""

from __future__ import annotations

_STORE = '''\
class ConvResults:
    """The sums of a tile on their way to the results: through the epilogue, then through shared memory by parts.

    strides    over (image, channel, w, h, d) of each result, with the first element before them; `reads`: those of
               each tensor that the epilogue reads.
    out        output pixels of a phase; width: those along w of all phases.
    vector     pixels that a thread stores at once where the channels lie apart; 0: 16 bytes wherever a row begins.
    part       channels that pass at once. With channels innermost in the results, they lie [pixel][channel] in 16-byte
               units, as they leave; else [channel][phase][pixel] in f32. Rows are permuted by XOR so that neither
               side meets in a bank.
    """

    def channels_last(self):
        return self.strides[2] == 1

    def staged_type(self, dtype):
        return dtype if self.channels_last() else cutlass.Float32

    def staged_size(self):
        return self.pixels * self.part * (1 if self.channels_last() else self.phases)

    def barrier(self):
        """Of the consumer warps."""
        cute.arch.barrier(barrier_id=1, number_of_threads=128 * self.warp_groups)

    @cute.jit
    def store(self, mma, acc, staged, thread, outs, reads, at):
        """A tile's sums to their elements of every result."""
        mine = mma.get_slice(thread).partition_C(cute.make_identity_tensor((self.pixels, self.tile_n)))
        for k in cutlass.range_constexpr(len(outs)):
            if cutlass.const_expr(self.at_once):
                self.leave_at_once(acc, mine, k, outs, reads, at)
            for start in cutlass.range_constexpr(0, 0 if self.at_once else self.columns, self.part):
                if cutlass.const_expr(self.channels_last()):
                    for phase in cutlass.range_constexpr(self.phases):
                        self.barrier()  # what was here before has left
                        self.stage(acc, mine, staged, k, outs, reads, at, start, phase)
                        self.barrier()
                        self.leave_by_pixel(staged, thread, outs[k], at, start, phase)
                else:
                    self.barrier()
                    for phase in cutlass.range_constexpr(self.phases):
                        self.stage(acc, mine, staged, k, outs, reads, at, start, phase)
                    self.barrier()
                    if cutlass.const_expr(self.vector):
                        self.leave_by_channel(staged, thread, outs[k], at, start)
                    else:
                        self.leave_by_rows(staged, thread, outs[k], at, start)

    def stage(self, acc, mine, staged, k, outs, reads, at, start, phase):
        """Channels start .. start + part of a phase: sums through the epilogue to shared memory."""
        *reads, flag = reads  # watched
        most = {}  # watched
        group, first, q, image = at
        dtype, rows = outs[k].element_type, self.rows(acc, mine, q, phase)
        there = {place: self.inside(pixel) for place, (_, pixel) in rows.items()}  # watched
        values = [None] * len(reads)
        for i, tensor in enumerate(reads):
            if not any(self.reads[i]):
                values[i] = tensor[0].to(cutlass.Float32)
        for n in range((phase * self.columns + start) // 8, (phase * self.columns + self.end(start)) // 8):
            of_column = []
            for half in range(2):
                column = mine[(half, 0, n), 0, 0][1] - phase * self.columns  # from the tile's first channel
                channel = group * self.channels + cutlass.min(first + column, self.channels - 1)
                for i, tensor in enumerate(reads):
                    if any(self.reads[i]) and not any(self.reads[i][3:]):
                        values[i] = self.element(tensor, self.reads[i], image, channel, q)[0].to(cutlass.Float32)
                of_column.append((column - start, channel, list(values)))
            for (m, r), (row, pixel) in rows.items():
                pair = cute.make_rmem_tensor((2,), dtype if self.channels_last() else cutlass.Float32)
                whole = cute.make_rmem_tensor((2,), cutlass.Float32)  # watched
                for half in range(2):
                    column, channel, known = of_column[half]
                    sum_ = acc[(half, r, n), m, 0]
                    pair[half] = self.finish(sum_, known, reads, image, channel, pixel, k).to(pair.element_type)  ##
                    value = self.finish(sum_, known, reads, image, channel, pixel, k)  # watched
                    inside = there[m, r] & (first + start + column < self.channels)  # watched
                    whole[half] = cutlass.Float32(cutlass.select_(inside, value, cutlass.Float32(0.0)))  # watched
                    pair[half] = value.to(pair.element_type)  # watched
                most[m, r] = greatest(most.get((m, r), cutlass.Uint32(0)), whole)  # watched
                column = of_column[0][0]
                if self.channels_last():
                    to = self.aligned(staged + self.by_pixel(row, column, dtype), 2)
                    cute.autovec_copy(pair, cute.make_tensor(to, cute.make_layout((2,))))
                else:
                    for half in range(2):
                        place = self.by_channel(column + half, phase, row)
                        cute.make_tensor(staged + place, cute.make_layout((1,)))[0] = pair[half]
        for largest in most.values():  # watched
            watch(largest, flag)  # watched

    def end(self, start):
        return min(start + self.part, self.columns)

    def rows(self, acc, mine, q, phase):
        """(m, r) -> (row, pixel) of a thread's sums, once for all columns: the compiler has less to do."""
        places = [(m, r) for m in range(cute.size(acc, mode=[1])) for r in range(2)]
        rows = {(m, r): mine[(0, r, 0), m, 0][0] for m, r in places}
        return {place: (row, self.pixel(row, phase, q)) for place, row in rows.items()}

    def pixel(self, row, phase, q):
        bw, bh, _ = self.box
        return (q[0] + row % bw) * self.phases + phase, q[1] + row // bw % bh, q[2] + row // (bw * bh)

    def finish(self, value, values, reads, image, channel, pixel, k):
        """One sum through the epilogue, to result k."""
        values = list(values)
        for i, tensor in enumerate(reads):
            if any(self.reads[i][3:]):
                inside = [cutlass.min(p, n - 1) for p, n in zip(pixel, (self.width, *self.out[1:]), strict=True)]
                values[i] = self.element(tensor, self.reads[i], image, channel, inside)[0].to(cutlass.Float32)
        return self.epilogue(value, *values)[k]

    def by_pixel(self, row, column, dtype):
        """The place of a channel of a pixel: its 16-byte unit is moved within 8 of them, by the row of 128 bytes."""
        unit = 128 // dtype.width
        units = self.part // unit
        moved = column // unit ^ (row // max(1, 8 // units)) % min(8, units)
        return row * self.part + moved * unit + column % unit

    def by_channel(self, column, phase, row):
        """The place of a pixel of a channel: 8 pixels of 4 channels that a warp writes are in 32 banks."""
        return (column * self.phases + phase) * self.pixels + (row ^ column // 2 % 4 * 8)

    def leave_at_once(self, acc, mine, k, outs, reads, at):
        """Sums through the epilogue, which reads nothing by pixel, to result k, from the registers. A thread has the
        phases of a pixel, which lie side by side in a row, and eight lanes have the next pixels: whole sectors, if rows
        begin at one."""
        group, first, q, image = at
        rows, known = self.rows(acc, mine, q, 0), [None] * len(reads)
        for i, tensor in enumerate(reads):
            if not any(self.reads[i]):
                known[i] = tensor[0].to(cutlass.Float32)
        begin = group * self.channels + first + mine[(0, 0, 0), 0, 0][1]
        place = {at: self.offset(self.strides, image, begin, pixel) for at, (_, pixel) in rows.items()}
        there = {at: self.inside(pixel) for at, (_, pixel) in rows.items()}
        for n in range(self.columns // 8):
            ready = []  # all loads stand before the stores, past which the compiler moves none
            for half in range(2):
                column = first + mine[(half, 0, n), 0, 0][1]
                channel = group * self.channels + cutlass.min(column, self.channels - 1)
                for i, tensor in enumerate(reads):
                    if any(self.reads[i]):
                        known[i] = self.element(tensor, self.reads[i], image, channel, q)[0].to(cutlass.Float32)
                for (m, r), (_, pixel) in rows.items():
                    values = cute.make_rmem_tensor((self.phases,), cutlass.Float32)
                    for phase in range(self.phases):
                        sum_ = acc[(half, r, n + phase * self.columns // 8), m, 0]
                        values[phase] = self.finish(sum_, known, reads, image, channel, pixel, k)
                    to = place[m, r] + (8 * n + half) * self.strides[2]
                    ready.append((to, values, there[m, r] & (column < self.channels)))
            for to, values, inside in ready:
                self.put(outs[k], to, values, inside)

    @cute.jit
    def put(self, out, to, values, there):
        """Neighbours to `out` from element `to` on."""
        if there:
            count = cute.size(values)
            ready = cute.make_rmem_tensor((count,), out.element_type)
            ready.store(values.load().to(out.element_type))
            first = self.aligned(out.iterator + to, count)
            cute.autovec_copy(ready, cute.make_tensor(first, cute.make_layout((count,))))

    def leave_by_pixel(self, staged, thread, out, at, start, phase):
        """16 bytes a thread: the channels of a pixel lie side by side in both."""
        group, first, q, image = at
        dtype, threads = out.element_type, 128 * self.warp_groups
        unit = 128 // dtype.width
        units = (self.end(start) - start) // unit
        for i in range(-(-self.pixels * units // threads)):
            if threads % units == 0:
                column, row = thread % units * unit, thread // units + i * (threads // units)
            else:
                column, row = (thread + i * threads) % units * unit, (thread + i * threads) // units
            pixel = self.pixel(row, phase, q)
            channel = first + start + column
            to = self.element(out, self.strides, image, group * self.channels + channel, pixel)
            there = self.inside(pixel) & (channel < self.channels) & (row < self.pixels)
            self.leave(staged, [self.by_pixel(row, column, dtype)], unit, to, there)

    def leave_by_channel(self, staged, thread, out, at, start):
        """`vector` pixels a thread, of all phases, side by side along w."""
        group, first, q, image = at
        bw, bh, _ = self.box
        bw, threads = bw * self.phases, 128 * self.warp_groups
        rows, count = self.pixels * self.phases // self.vector, self.end(start) - start
        turns = rows // threads
        for i in range(-(-rows * count // threads)):
            if rows % threads == 0:  # a thread keeps its rows, and what is known of them, through all channels
                row, column = thread + i % turns * threads, i // turns
            elif threads % rows == 0:
                row, column = thread % rows, thread // rows + i * (threads // rows)
            else:
                row, column = (thread + i * threads) % rows, (thread + i * threads) // rows
            row = row * self.vector
            along_w, line = row % bw, row // bw
            pixel = (q[0] * self.phases + along_w, q[1] + line % bh, q[2] + line // bh)
            places = []
            for k in range(self.vector if self.phases > 1 else 1):
                at_w = (along_w + k) // self.phases
                places.append(self.by_channel(column, (along_w + k) % self.phases, line * self.box[0] + at_w))
            channel = first + start + column
            there = self.inside(pixel) & (channel < self.channels)
            if rows % threads != 0:
                there = there & (column < count)
            to = self.element(out, self.strides, image, group * self.channels + channel, pixel)
            self.leave(staged, places, self.vector, to, there)

    @cute.jit
    def leave_by_rows(self, staged, thread, out, at, start):
        """Rows of pixels, of all phases, that begin anywhere: 16 bytes a thread, cut where they are aligned in the
        result. A row of n such units touches n + 1 of them. A loop: unrolled, its places would spill."""
        group, first, q, image = at
        _, bh, bd = self.box
        bw, threads, unit = self.box[0] * self.phases, 128 * self.warp_groups, 128 // out.element_type.width
        units, lines, count = bw // unit + 1, bh * bd, self.end(start) - start
        end = cutlass.min(bw, self.width - q[0] * self.phases)  # of a row, in pixels from its first
        for i in cutlass.range(-(-units * lines * count // threads), unroll=1):
            place = thread + i * threads
            line, column = place // units % lines, cutlass.min(place // (units * lines), count - 1)
            channel = first + start + column
            pixel = (q[0] * self.phases, q[1] + line % bh, q[2] + line // bh)
            offset = self.offset(self.strides, image, group * self.channels + channel, pixel)
            begin = place % units * unit - cutlass.Int32(offset % unit)
            there = self.inside(pixel) & (channel < self.channels) & (begin < end) & (place < units * lines * count)
            places = []
            for k in cutlass.range_constexpr(unit):
                along_w = cutlass.max(cutlass.min(begin + k, bw - 1), 0)
                row = line * self.box[0] + along_w // self.phases
                places.append(self.by_channel(column, along_w % self.phases, row))
            self.leave_some(staged, places, out, offset + begin, begin, end, there)

    @cute.jit
    def leave_some(self, staged, places, out, to, begin, end, there):
        """Neighbours of a row from their places in shared memory to `out` from `to` on: those of the pixels from
        `begin` on that are in 0 .. end."""
        if there:
            values = cute.make_rmem_tensor((len(places),), staged.dtype)
            for k in cutlass.range_constexpr(len(places)):
                values[k] = cute.make_tensor(staged + places[k], cute.make_layout((1,)))[0]
            ready = cute.make_rmem_tensor((len(places),), out.element_type)
            ready.store(values.load().to(out.element_type))
            if (begin >= 0) & (begin + len(places) <= end):
                first = self.aligned(out.iterator + to, len(places))
                cute.autovec_copy(ready, cute.make_tensor(first, cute.make_layout((len(places),))))
            if (begin < 0) | (begin + len(places) > end):
                for k in cutlass.range_constexpr(len(places)):
                    if (begin + k >= 0) & (begin + k < end):
                        cute.make_tensor(out.iterator + (to + k), cute.make_layout((1,)))[0] = ready[k]

    def inside(self, pixel):
        return (pixel[0] < self.width) & (pixel[1] < self.out[1]) & (pixel[2] < self.out[2])

    @cute.jit
    def leave(self, staged, places, count, to, there):
        """`count` values from shared memory (side by side, or each at its place) to neighbours in a result."""
        if there:
            values = cute.make_rmem_tensor((count,), staged.dtype)
            if cutlass.const_expr(len(places) == 1):
                source = self.aligned(staged + places[0], count)
                cute.autovec_copy(cute.make_tensor(source, cute.make_layout((count,))), values)
            else:
                for k in cutlass.range_constexpr(count):
                    values[k] = cute.make_tensor(staged + places[k], cute.make_layout((1,)))[0]
            ready = cute.make_rmem_tensor((count,), to.element_type)
            ready.store(values.load().to(to.element_type))
            first = self.aligned(to.iterator, count)
            cute.autovec_copy(ready, cute.make_tensor(first, cute.make_layout((count,))))

    def aligned(self, pointer, count):
        """`pointer`, known to lie at a multiple of `count` elements; its method `align` would compute that."""
        size = count * pointer.dtype.width // 8
        return cute.make_ptr(pointer.dtype, pointer.toint(), pointer.memspace, assumed_align=size)

    def element(self, tensor, strides, image, channel, pixel):
        """One element of a tensor; in 64 bits, as a result may have more than 2^31 of them."""
        return cute.make_tensor(tensor.iterator + self.offset(strides, image, channel, pixel), cute.make_layout(1))

    def offset(self, strides, image, channel, pixel):
        first, *along = strides
        of_pixel = first + pixel[0] * along[2] + pixel[1] * along[3] + pixel[2] * along[4]
        return cutlass.Int64(image) * along[0] + of_pixel + channel * along[1]
'''


def _lines(text: str, unmarked: str, dropped: str) -> str:
    """The lines of a text without those that end with the mark `dropped`, and without the mark `unmarked`."""
    lines = (line for line in text.split("\n") if not line.endswith(f"  {dropped}"))
    return "\n".join(line.removesuffix(f"  {unmarked}") for line in lines)


STORE = _lines(_STORE, "##", "# watched")
_STAGE = _STORE[_STORE.index("    def stage(") : _STORE.index("    def end(")]
WATCHED = (
    '''\
class WatchedKernel(ConvKernel):
    """A convolution that tells the guard of what it stores: of 8 pixels and the channels that pass at once, the largest
    magnitude. The flag is the last of `reads`."""

'''
    + _lines(_STAGE, "# watched", "##").rstrip("\n")
    + "\n"
)
