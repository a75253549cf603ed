"""A convolution fused with the stage that alone reads it, as far as `dsl.rules.folds` allows. Its own result is never
in memory.

channels   A tile has all channels of its pixels, and warp-group MMA leaves those of a pixel in the registers of four
           lanes. Each sum goes through the convolution's own expression in place, each lane folds its channels, and two
           shuffles fold those of the four lanes. A reduction stores one value a pixel; a softmax puts its values where
           the sums were, and they leave as any convolution's results do.
pool       The pixels of a window are in one box. Sums go through the convolution's own expression to shared memory, as
           any convolution's results do, and what leaves it is a window at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dsl.ir import (
    NHWC,
    Conv,
    Expr,
    Load,
    Normalize,
    Operand,
    Pool,
    Program,
    Reduce,
    TensorType,
    expressions,
    inlined,
    loads,
)
from dsl.lower.cute.conv.conv_launches import Launch, three
from dsl.rules import folds
from dsl.rules.problem import types_of


@dataclass(frozen=True)
class FoldingConv(Conv):
    """A convolution with the name and the type of the stage `reader`, whose result it stores. `product`: the
    convolution's own name; `sums`: its own type."""

    product: str = ""
    reader: Reduce | Normalize | Pool | None = None
    sums: TensorType | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        names = dict.fromkeys(x.name for e in expressions(self.reader) for x in loads(e))
        return (self.x, self.w, *map(Operand, names))

    @property
    def exprs(self) -> tuple[Expr, Expr]:
        """The expression of a stored value, and that of a sum before it is folded."""
        return inlined(self.reader, self.reader.epilogue), inlined(self, self.epilogue)

    @property
    def window(self) -> tuple[int, int, int]:
        """The pixels of a pool's window along w, h and d; 1 for other readers."""
        return three(self.reader.window, 1) if isinstance(self.reader, Pool) else (1, 1, 1)

    def result(self) -> Load:
        """The stored result, as it would be read at each pixel."""
        axes = ("b", "c", *("d", "h", "w")[-self.spatial :])
        if isinstance(self.reader, Reduce) and not self.reader.keepdim:
            axes = tuple(a for a in axes if a != "c")
        return Load(self.name, axes)


def fused(program: Program) -> Program:
    """The program with each such pair as one stage, in the place of the reader."""
    stages = {s.name: s for s in program.stages}
    types = types_of(program)
    for conv in program.stages:
        if type(conv) is not Conv or types[conv.x.name].layout != NHWC:
            continue
        reader = folds.reader(program, conv)
        if reader is None or not folds.fits(conv, conv.config, reader):
            continue
        own = {f.name: getattr(conv, f.name) for f in fields(Conv) if f.name not in ("name", "type", "also", "store")}
        del stages[conv.name]
        stages[reader.name] = FoldingConv(
            **{**own, "name": reader.name, "store_layout": reader.store_layout}, type=reader.type, store=reader.store,
            product=conv.name, reader=reader, sums=conv.type,
        )  # fmt: skip
    return replace(program, stages=tuple(stages.values()))


def stored(launches: list[Launch]) -> list[Launch]:
    """The launches with the strides of the result, which were the last of those that are read."""
    return [replace(launch, strides=launch.reads[-1], reads=launch.reads[:-1]) for launch in launches]


FOLD = '''\
class FoldKernel(ConvKernel):
    """A convolution that folds the channels of each pixel: they are all in one tile, in the registers of four lanes.

    fold       sum | mean | max | min | logsumexp: one value a pixel; softmax | log_softmax: a value a channel.
    epilogue   of a stored value; and second, of a sum before it is folded. needs: which of `reads` each of them reads.
    """

    @cute.jit
    def store(self, mma, acc, staged, thread, outs, reads, at):
        mine = mma.get_slice(thread).partition_C(cute.make_identity_tensor((self.pixels, self.tile_n)))
        self.settle(acc, mine, reads, at)
        self.fold_pixels(acc, mine, thread, outs, reads, at)
        if cutlass.const_expr(self.fold in ("softmax", "log_softmax")):
            ConvKernel.store(self, mma, acc, staged, thread, outs, reads, at)

    def fold_pixels(self, acc, mine, thread, outs, reads, at):
        for m in range(cute.size(acc, mode=[1])):
            for r in range(2):
                values = [self.folded(acc, m, r, self.blocks_of(phase)) for phase in range(self.phases)]
                if self.fold not in ("softmax", "log_softmax"):
                    self.leave_folded(values, mine[(0, r, 0), m, 0][0], thread, outs[0], reads, at)

    def blocks_of(self, phase):
        """The blocks of 8 columns that have the channels of a phase."""
        first = phase * self.columns // 8
        return range(first, first + self.channels // 8)

    def settle(self, acc, mine, reads, at):
        """Each sum through the convolution's own expression, in place."""
        _, _, q, image = at
        for phase in range(self.phases):
            for n in self.blocks_of(phase):
                for half in range(2):
                    channel = mine[(half, 0, n), 0, 0][1] - phase * self.columns
                    known = self.known(reads, image, channel, q)
                    for m in range(cute.size(acc, mode=[1])):
                        for r in range(2):
                            row = mine[(0, r, 0), m, 0][0]
                            pixel = self.pixel(row, phase, q)
                            value = self.finish(acc[(half, r, n), m, 0], known, reads, image, channel, pixel, 1)
                            acc[(half, r, n), m, 0] = value

    def known(self, reads, image, channel, q):
        """What the expressions read that is the same at every pixel."""
        values = [None] * len(reads)
        for i, tensor in enumerate(reads):
            if not any(self.reads[i][3:]):
                values[i] = self.element(tensor, self.reads[i], image, channel, q)[0].to(cutlass.Float32)
        return values

    def finish(self, value, values, reads, image, channel, pixel, k):
        """One value through expression k, which reads its own tensors alone: the other's may have fewer pixels."""
        values = list(values)
        for i, tensor in enumerate(reads):
            if i not in self.needs[k]:
                values[i] = cutlass.Float32(0.0)
            elif any(self.reads[i][3:]):
                inside = [cutlass.min(p, n - 1) for p, n in zip(pixel, self.extents(k))]
                values[i] = self.element(tensor, self.reads[i], image, channel, inside)[0].to(cutlass.Float32)
        return self.epilogue(value, *values)[k]

    def extents(self, k):
        """The pixels of what expression k makes."""
        return (self.width, *self.out[1:])

    def folded(self, acc, m, r, blocks):
        """The fold of a pixel's channels, in each of its four lanes; a softmax is written over them."""
        places = [((half, r, n), m, 0) for n in blocks for half in range(2)]
        if self.fold in ("sum", "mean"):
            total = self.of_lanes([acc[p] for p in places], lambda a, b: a + b)
            return total * (1.0 / self.channels) if self.fold == "mean" else total
        if self.fold == "min":
            return self.of_lanes([acc[p] for p in places], lambda a, b: cute.arch.fmin(a, b, nan=True))
        greatest = self.of_lanes([acc[p] for p in places], lambda a, b: cute.arch.fmax(a, b, nan=True))
        if self.fold == "max":
            return greatest
        if self.fold == "logsumexp":  # exp(inf - inf) would be NaN
            infinite = cute.math.absf(greatest) == cutlass.Float32.inf
            greatest = cutlass.Float32(cutlass.select_(infinite, cutlass.Float32(0.0), greatest))
        powers = [cute.math.exp(acc[p] - greatest, fastmath=True) for p in places]
        total = self.of_lanes(powers, lambda a, b: a + b)
        if self.fold == "logsumexp":
            return greatest + cute.math.log(total)
        if self.fold == "softmax":
            scale = 1.0 / total
            for p, power in zip(places, powers):
                acc[p] = power * scale
        else:
            shift = greatest + cute.math.log(total)
            for p in places:
                acc[p] = acc[p] - shift
        return greatest

    def of_lanes(self, values, merge):
        """One value of all of a lane's, by halves, and of its three neighbours'."""
        while len(values) > 1:
            left = values[: len(values) // 2 * 2 : 2]
            values = [merge(a, b) for a, b in zip(left, values[1::2])] + values[len(values) // 2 * 2 :]
        value = values[0]
        for step in range(2):
            value = merge(value, cute.arch.shuffle_sync_bfly(value, offset=1 << step))
        return value

    @cute.jit
    def leave_folded(self, folded, row, thread, out, reads, at):
        """A pixel's values to the result: each phase's by one of the four lanes that have them."""
        _, _, q, image = at
        value, lane = folded[0], thread % 4
        for phase in cutlass.range_constexpr(1, self.phases):
            value = cutlass.Float32(cutlass.select_(lane == phase, folded[phase], value))
        pixel = self.pixel(row, lane, q)
        if (lane < self.phases) & self.inside(pixel):
            stored = self.finish(value, self.known(reads, image, 0, q), reads, image, 0, pixel, 0)
            to = self.element(out, self.strides, image, 0, pixel)
            to[0] = stored.to(out.element_type)
'''

POOL = '''\
class PoolKernel(FoldKernel):
    """A convolution whose pixels are pooled by windows that lie side by side, each in one box.

    fold       max | avg.
    window     pixels of a window along w, h and d; pooled: windows along them in an image.
    """

    def extents(self, k):
        return (self.width, *self.out[1:]) if k else self.pooled

    @cute.jit
    def store(self, mma, acc, staged, thread, outs, reads, at):
        mine = mma.get_slice(thread).partition_C(cute.make_identity_tensor((self.pixels, self.tile_n)))
        for start in cutlass.range_constexpr(0, self.columns, self.part):
            self.barrier()  # what was here before has left
            self.stage_sums(acc, mine, staged, outs[0], reads, at, start)
            self.barrier()
            self.leave_windows(staged, thread, outs[0], reads, at, start)

    def stage_sums(self, acc, mine, staged, out, reads, at, start):
        """Channels start .. start + part: sums through the convolution's own expression to shared memory."""
        _, first, q, image = at
        dtype = self.staged_type(out.element_type)
        for n in range(start // 8, self.end(start) // 8):
            columns = [mine[(half, 0, n), 0, 0][1] for half in range(2)]
            channels = [cutlass.min(first + column, self.channels - 1) for column in columns]
            known = [self.known(reads, image, channel, q) for channel in channels]
            for m in range(cute.size(acc, mode=[1])):
                for r in range(2):
                    row = mine[(0, r, 0), m, 0][0]
                    pixel = self.pixel(row, 0, q)
                    pair = cute.make_rmem_tensor((2,), dtype)
                    for half in range(2):
                        value = acc[(half, r, n), m, 0]
                        value = self.finish(value, known[half], reads, image, channels[half], pixel, 1)
                        pair[half] = value.to(dtype)
                    column = columns[0] - start
                    if self.channels_last():
                        to = self.aligned(staged + self.by_pixel(row, column, dtype), 2)
                        cute.autovec_copy(pair, cute.make_tensor(to, cute.make_layout((2,))))
                    else:
                        for half in range(2):
                            place = self.by_channel(column + half, 0, row)
                            cute.make_tensor(staged + place, cute.make_layout((1,)))[0] = pair[half]

    def leave_windows(self, staged, thread, out, reads, at, start):
        """A window a thread, of as many channels as lie side by side in 16 bytes of the result."""
        _, first, q, image = at
        dtype, threads = out.element_type, 128 * self.warp_groups
        unit = 128 // dtype.width if self.channels_last() else 1
        edges = [size // edge for size, edge in zip(self.box, self.window)]  # windows of a box
        windows, units = edges[0] * edges[1] * edges[2], (self.end(start) - start) // unit
        for i in range(-(-windows * units // threads)):
            number = thread + i * threads
            if self.channels_last():
                column, place = number % units * unit, number // units
            else:
                column, place = number // windows, number % windows
            window = (place % edges[0], place // edges[0] % edges[1], place // (edges[0] * edges[1]))
            pixel = [q[axis] // self.window[axis] + window[axis] for axis in range(3)]
            channel = first + start + column
            there = (pixel[0] < self.pooled[0]) & (pixel[1] < self.pooled[1]) & (pixel[2] < self.pooled[2])
            there = there & (channel < self.channels) & (number < windows * units)
            self.leave_window(staged, column, window, unit, out, reads, image, channel, pixel, there)

    @cute.jit
    def leave_window(self, staged, column, window, unit, out, reads, image, channel, pixel, there):
        if there:
            totals = self.of_window(staged, column, window, unit, out.element_type)
            ready = cute.make_rmem_tensor((unit,), out.element_type)
            for k in cutlass.range_constexpr(unit):
                known = self.known(reads, image, channel + k, pixel)
                value = self.finish(totals[k], known, reads, image, channel + k, pixel, 0)
                ready[k] = value.to(out.element_type)
            to = self.element(out, self.strides, image, channel, pixel).iterator
            to = self.aligned(to, unit)
            cute.autovec_copy(ready, cute.make_tensor(to, cute.make_layout((unit,))))

    def of_window(self, staged, column, window, unit, dtype):
        """The maximum or mean of a window, for each of `unit` channels, in f32."""
        totals = None
        kw, kh, kd = self.window
        for z in range(kd):
            for y in range(kh):
                for x in range(kw):
                    line = (window[2] * kd + z) * self.box[1] + window[1] * kh + y
                    row = line * self.box[0] + window[0] * kw + x
                    values = cute.make_rmem_tensor((unit,), self.staged_type(dtype))
                    if self.channels_last():
                        source = self.aligned(staged + self.by_pixel(row, column, dtype), unit)
                    else:
                        source = staged + self.by_channel(column, 0, row)
                    cute.autovec_copy(cute.make_tensor(source, cute.make_layout((unit,))), values)
                    values = [cutlass.Float32(values[k]) for k in range(unit)]
                    totals = values if totals is None else [self.merged(a, b) for a, b in zip(totals, values)]
        return totals if self.fold == "max" else [total * (1.0 / (kw * kh * kd)) for total in totals]

    def merged(self, a, b):
        return cute.arch.fmax(a, b, nan=True) if self.fold == "max" else a + b
'''

__all__ = ["FOLD", "POOL", "FoldingConv", "fused", "stored"]
