"""Direct convolution on the CUDA cores: depthwise, few channels a group, compute f32.

planes    x and result are nchw: a thread computes a few output channels of a few rows of one column. Neighbouring
threads
          have neighbouring columns, so every access is coalesced, and rows that results share are read once.
channels  depthwise, channels last: a thread has a vector of channels of a few columns; weights are in shared memory.
"""

from __future__ import annotations

from math import prod

from dsl.axes import axes_of
from dsl.ir import NHWC, Conv, DType, Program
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import SMS, THREADS, element, own_plan, refuse_types
from dsl.lower.cute.space import WIDE, Offset, aligned_vector, index_function, reach
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import MOST, Reading, add_launch, read_all, unique
from dsl.lower.cute.window import Windows
from dsl.rules.problem import is_rowmajor

UNROLLED = 640  # most unrolled multiplications of a thread
STAGED = 40 << 10  # bytes of shared memory for weights


def takes(program: Program, stage: Conv) -> bool:
    """Return True if the stage is a direct convolution: by its compute clause, or by operands that TMA cannot move."""
    types = types_of(program)
    x, w = types[stage.x.name], types[stage.w.name]
    per_group = w.shape[1]
    if stage.config.compute is DType.TF32:
        return False
    if stage.config.compute is DType.F32 or x.dtype is DType.F32:
        return True
    depthwise = stage.groups > 1 and per_group * x.dtype.bits % 128 != 0
    return not stage.transposed and (depthwise or (x.layout != NHWC and w.layout != NHWC))


def plan(program: Program, stage: Conv, unrolled: int = UNROLLED) -> StagePlan | None:
    """The plan of a direct convolution; None for the tensor cores. `unrolled`: fewer build faster and run slower."""
    types = types_of(program)
    if is_rowmajor(stage, types):
        raise Refusal(
            "cute-conv-layout",
            f"{stage.name} reads {stage.x.name} and {stage.w.name} in nchw; on the tensor cores cute takes nhwc",
            "use `cpp`, or transform both with layout nhwc",
        )
    if not takes(program, stage):
        return None
    x, w, y = types[stage.x.name], types[stage.w.name], stage.type
    rank = len(x.shape)
    if x.dtype not in (DType.F32, DType.F16, DType.BF16) or w.dtype not in (DType.F32, DType.F16, DType.BF16):
        raise Refusal("cute-conv", f"{stage.name} multiplies {x.dtype.value} without tensor cores", "cast to f16")
    text, readings = Text(), {}
    axes = axes_of(stage, rank)
    outs = []
    for name, expr, t in [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, y)]:
        function = element(stage, expr, f"{name}_element")
        outs.append((Reading(name, t.dtype, t.strides), function, read_all(function, types, axes, rank, readings)))
        if not function.plain:
            text.add(function.text, ("", "epilogue"))
            text.gap(2)
    read = [r.tensor for r in readings.values()]
    names = unique([stage.x.name, stage.w.name, *read, *(o.tensor for o, _, _ in outs)])
    refuse_types(stage, types, names)
    n = rank - 2
    padding = stage.padding or (0,) * n
    windows = Windows.of(x, y, w.shape[2:], stage.stride, padding, stage.dilation)
    job = _Job(stage, text, x, w, y, windows, readings, outs, names, unrolled)
    depthwise = w.shape[1] == 1 and y.shape[1] == stage.groups and not stage.transposed
    small = prod(w.shape) * 4 <= STAGED
    launch = job.channels() if depthwise and small and x.layout == y.layout == NHWC else job.planes()
    add_launch(text, stage.name, names, [launch])
    imports = frozenset({("cutlass", "select_")}).union(*(f.imports for _, f, _ in outs))
    return own_plan(program, stage, text, f"{stage.name}_launch", names, imports=imports)


class _Job:
    def __init__(self, stage, text, x, w, y, windows, readings, outs, names, most):
        self.stage, self.text, self.x, self.w, self.y, self.windows = stage, text, x, w, y, windows
        self.readings, self.outs, self.names = readings, outs, names
        self.n, self.most = len(windows.size), most
        # Strides of w: output channel (of all), input channel (of a group), window.
        if stage.transposed:  # [C, K / groups, window]
            self.wk, self.wc = w.strides[1], w.strides[0]
            self.channels_in, self.channels_out = w.shape[0] // stage.groups, w.shape[1]
        else:  # [K, C / groups, window]
            self.wk, self.wc = w.strides[0], w.strides[1]
            self.channels_in, self.channels_out = w.shape[1], w.shape[0] // stage.groups

    # ---- nchw -------------------------------------------------------------------------------------------------

    def planes(self) -> tuple[str, list[str], str]:
        stage, windows, n = self.stage, self.windows, self.n
        x, y = self.x, self.y
        several = 1
        while several < 8 and self.channels_out % (several * 2) == 0:
            several *= 2
        down = n - 2 if n > 1 else None  # the axis of space along which a thread has rows
        rows = 1
        if down is not None:
            rows = 8 if several == 1 else 4
            while rows > 1 and (rows > y.shape[2 + down] or rows * several * windows.size[-1] > self.most):
                rows //= 2
            threads = prod(y.shape) // (several * rows)
            while rows > 1 and threads < SMS * THREADS:
                rows, threads = rows // 2, threads * 2
        self.several, self.rows, self.down = several, rows, down
        heights = [-(-e // rows) if axis == down else e for axis, e in enumerate(y.shape[2:])]
        extents = (y.shape[0], y.shape[1] // several, *heights)
        total = prod(extents)
        if total > MOST:
            raise Refusal("cute-size", f"{stage.name} has {y.elements:,} elements; a kernel counts {MOST:,}", None)
        units = [1, several, *(rows if axis == down else 1 for axis in range(n))]

        def offset(label, strides, t_shape) -> Offset:
            s = tuple(v * u for v, u in zip(strides, units, strict=True))
            return Offset(label, s, 0, reach(t_shape, strides) >= WIDE)

        x_fixed = (x.strides[0], *[0] * (n + 1))
        offsets = [Offset("x", x_fixed, 0, windows.wide), Offset("k", (0, several, *[0] * n))]
        offsets += [Offset("c", tuple(units[a] if a == 2 + axis else 0 for a in range(n + 2))) for axis in range(n)]
        offsets += [offset(o.tensor, o.strides, y.shape) for o, _, _ in self.outs]
        offsets += [offset(k, r.strides, y.shape) for k, r in self.readings.items()]
        doc = f"Of thread `index`: where its image is in {stage.x.name}, its first channel and place, its place in "
        doc += ", ".join([*(o.tensor for o, _, _ in self.outs), *(r.tensor for r in self.readings.values())])
        self.text.add(index_function(f"{stage.name}_at", f"{doc}.", extents, offsets))
        self.text.gap(2)
        self.text.add("\n".join(self._planes(total)))
        grid = f"grid=({-(-total // THREADS)}, 1, 1), block=({THREADS}, 1, 1)"
        return (f"{stage.name}_kernel", self.names, grid)

    def _planes(self, total: int) -> list[str]:
        stage, windows, n, several, rows = self.stage, self.windows, self.n, self.several, self.rows
        name, x, w = stage.name, self.x, self.w
        guard = total % THREADS != 0
        whole = windows.count * several * rows <= self.most
        unrolled = windows.count if whole else windows.size[-1]
        outer = windows.count // unrolled
        loops = self.channels_in * outer
        arguments = ", ".join(f"{t}: cute.Tensor" for t in self.names)
        lines = [
            "@cute.kernel",
            f"def {name}_kernel({arguments}):",
            f'    """{total:,} threads: each {several} output channels of {rows} rows of a column."""',
            "    thread, _, _ = cute.arch.thread_idx()",
            "    block, _, _ = cute.arch.block_idx()",
            f"    index = Uint32(block) * {THREADS} + Uint32(thread)",
            f"    at = {name}_at(" + (f"cutlass.min(index, Uint32({total - 1})))" if guard else "index)"),
        ]
        if stage.groups > 1:
            group = f"at[1] // {self.channels_out}" if self.channels_out > 1 else "at[1]"
            lines.append(f"    channel = {group}" + (f" * {self.channels_in}" if self.channels_in > 1 else ""))
        lines += [
            f"    sums = cute.make_rmem_tensor(({several * rows},), Float32)",
            "    sums.fill(0.0)",
        ]
        indent = "    "
        if loops > 1:
            lines.append(f"    for turn in cutlass.range({loops}, unroll=1):")
            indent = "        "
            own = "Uint32(turn)" if outer == 1 else f"Uint32(turn) // {outer}"
        else:
            own = "0"
        if outer > 1:
            lines.append(
                f"{indent}far = Uint32(turn) % {outer} * {unrolled}"
                if self.channels_in > 1
                else f"{indent}far = Uint32(turn) * {unrolled}"
            )
        channel = {(True, True): f"channel + {own}", (True, False): "channel", (False, True): own, (False, False): "0"}[
            (stage.groups > 1, own != "0")
        ]
        wide = "Int64({})" if windows.wide else "({})"
        plane = "at[0]" if channel == "0" else f"at[0] + {wide.format(channel)} * {x.strides[1]}"
        lines.append(f"{indent}plane = {plane}")
        # The weight of a transposed convolution has the input channels of all groups outermost.
        if stage.transposed:
            k = f"at[1] % {self.channels_out}" if stage.groups > 1 else "at[1]"
            filters = f"{k} * {self.wk}" + (f" + ({channel}) * {self.wc}" if channel != "0" else "")
        else:
            filters = f"at[1] * {self.wk}" + (f" + ({own}) * {self.wc}" if own != "0" else "")
        lines.append(f"{indent}filters = {filters}")
        lines.append(f"{indent}found = {{}}  # elements of x that several rows meet are read once")
        lines.append(f"{indent}for near in cutlass.range_constexpr({unrolled}):")
        deeper = indent + "    "
        place = "far + near" if outer > 1 else "near"
        lines.append(f"{deeper}place = {place}")
        spots, below = [], 1
        for axis in reversed(range(n)):
            size = windows.size[axis]
            one = f"place // {below}" if below > 1 else "place"
            spots.insert(0, "0" if size == 1 else one if below * size == windows.count else f"{one} % {size}")
            below *= size
        between = w.strides[-1]  # of two places of the window; more than 1 where w is channels last
        spot = "filters + place" + (f" * {between}" if between > 1 else "")
        taps = [f"{spot}{'' if not i else f' + {i * self.wk}'}" for i in range(several)]
        reads = ", ".join(f"Float32(read({stage.w.name}, {t}, 1)[0])" for t in taps)
        lines.append(f"{deeper}taps = ({reads},)")
        lines.append(f"{deeper}for row in cutlass.range_constexpr({rows}):")
        inner = deeper + "    "
        results = [f"(at[{2 + a}] + row)" if a == self.down and rows > 1 else f"at[{2 + a}]" for a in range(n)]
        share = whole and rows > 1 and not stage.transposed
        if share:
            a = self.down
            step, apart = windows.step[a], windows.dilation[a]
            lines.append(
                f"{inner}key = (row * {step} + {spots[a]} * {apart}, place % {windows.size[-1]}"
                + (f", place // {windows.size[a] * windows.size[-1]})" if n > 2 else ")")
            )
            lines.append(f"{inner}if cutlass.const_expr(key not in found):")
        else:
            lines.append(f"{inner}key = row")
        body = inner + ("    " if share else "")
        lines += self._element(results, spots, body)
        lines.append(f"{inner}for k in cutlass.range_constexpr({several}):")
        lines.append(f"{inner}    sums[k * {rows} + row] = sums[k * {rows} + row] + found[key] * taps[k]")
        lines += self._store(total, guard)
        return lines

    def _element(self, results, spots, indent) -> list[str]:
        """The lines that read x for a result and a window position, as `found[key]`."""
        stage, windows = self.stage, self.windows
        if stage.transposed:
            return self._gather(results, spots, indent)
        rows_over = self.down is not None and self.y.shape[2 + self.down] % self.rows
        more, offset, tested = windows.locate(results, spots, indent, self.down if rows_over else None)
        value = f"Float32(read({stage.x.name}, plane + {offset}, 1)[0])"
        value = f"Float32(select_(inside, {value}, Float32(0.0)))" if tested else value
        return [*more, f"{indent}found[key] = {value}"]

    def _gather(self, results, spots, indent) -> list[str]:
        """The same if transposed: window position s reads (r + padding - s * dilation) / stride, if a whole number."""
        windows, lines, tests, terms = self.windows, [], [], []
        for a, (result, spot) in enumerate(zip(results, spots, strict=True)):
            step, apart, pad = windows.step[a], windows.dilation[a], windows.padding[a]
            behind = f"({spot}) * {apart}" if spot != "0" else "0"
            # Add a multiple of the stride, so that the dividend is positive.
            lift = -(-((windows.size[a] - 1) * apart) // step) * step
            lines.append(f"{indent}c{a} = {result} + {pad + lift} - {behind}")
            if step > 1:
                tests.append(f"(c{a} % {step} == 0)")
            low, high = lift // step, lift // step + windows.extents[a]
            one = f"c{a} // {step}" if step > 1 else f"c{a}"
            tests.append(f"({one} >= {low}) & ({one} < {high})" if low else f"({one} < {high})")
            cut = f"cutlass.min({one}, Uint32({high - 1}))"
            if low:
                cut = f"(cutlass.max({cut}, Uint32({low})) - {low})"
            cut = f"Int64({cut})" if windows.wide else cut
            if windows.strides[a]:
                terms.append(cut if windows.strides[a] == 1 else f"{cut} * {windows.strides[a]}")
        value = f"Float32(read({self.stage.x.name}, plane + {' + '.join(terms)}, 1)[0])"
        lines.append(f"{indent}{windows.inside(tests)}")
        lines.append(f"{indent}found[key] = Float32(select_(inside, {value}, Float32(0.0)))")
        return lines

    def _store(self, total: int, guard: bool) -> list[str]:
        y, several, rows, n = self.y, self.several, self.rows, self.n
        at_y = 2 + n
        stride = {"k": lambda s: s[1], "row": lambda s: s[2 + self.down] if self.down is not None else 0}
        rest = self.down is not None and y.shape[2 + self.down] % rows
        lines = [f"    for row in cutlass.range_constexpr({rows}):"]
        test = [f"(index < {total})"] if guard else []
        test += [f"(at[{2 + self.down}] + row < {y.shape[2 + self.down]})"] if rest else []
        indent = "        "
        if test:
            lines.append(f"{indent}if {' & '.join(test)}:")
            indent += "    "
        lines.append(f"{indent}for k in cutlass.range_constexpr({several}):")
        indent += "    "

        def spot(i, strides):
            terms = [f"at[{i}]"]
            for word, count in (("k", several), ("row", rows)):
                s = stride[word](strides)
                if s and count > 1:
                    terms.append(f"{word} * {s}")
            return " + ".join(terms)

        picks = []
        for i, key in enumerate(self.readings, at_y + len(self.outs)):
            r = self.readings[key]
            picks.append((key, f"Float32(read({r.tensor}, {spot(i, r.strides)}, 1)[0])"))
        chosen = dict(picks)
        for i, (o, function, keys) in enumerate(self.outs, at_y):
            lines += [
                f"{indent}out = cute.make_rmem_tensor((1,), Float32)",
                f"{indent}out[0] = {function.call(f'sums[k * {rows} + row]', *(chosen[k] for k in keys))}",
                f"{indent}write({o.tensor}, {spot(i, o.strides)}, out)",
            ]
        return lines

    # ---- channels last, depthwise -----------------------------------------------------------------------------

    def channels(self) -> tuple[str, list[str], str]:
        stage, windows, n, x, y = self.stage, self.windows, self.n, self.x, self.y
        every = [(*(s for i, s in enumerate(t.strides) if i != 1), 1) for t in (x, y)]
        width = min(8, aligned_vector(y.shape[1], every, [x.dtype.bits, y.dtype.bits]))
        columns = 4
        while columns > 1 and (columns > y.shape[-1] or columns * width * windows.count > self.most):
            columns //= 2
        order = y.memory_order
        units = {a: width if a == 1 else columns if a == n + 1 else 1 for a in range(n + 2)}
        extents = tuple(-(-y.shape[a] // units[a]) for a in order)
        total = prod(extents)
        name, channels, taps = stage.name, y.shape[1], windows.count

        def offset(label, strides) -> Offset:
            s = tuple(strides[a] * units[a] for a in order)
            return Offset(label, s, 0, reach(y.shape, strides) >= WIDE)

        fixed = tuple(s if a < 2 else 0 for a, s in enumerate(x.strides))
        offsets = [Offset("x", tuple(fixed[a] * units[a] for a in order), 0, windows.wide)]
        offsets += [Offset("k", tuple(width if a == 1 else 0 for a in order))]
        offsets += [Offset("c", tuple(units[a] if a == 2 + axis else 0 for a in order)) for axis in range(n)]
        offsets += [offset(o.tensor, o.strides) for o, _, _ in self.outs]
        offsets += [offset(k, r.strides) for k, r in self.readings.items()]
        doc = f"Of thread `index`: where its image and channels are in {stage.x.name}, its first channel and place, "
        doc += "its place in " + ", ".join(
            [*(o.tensor for o, _, _ in self.outs), *(r.tensor for r in self.readings.values())]
        )
        self.text.add(index_function(f"{name}_at", f"{doc}.", extents, offsets))
        self.text.gap(2)
        guard = total % THREADS != 0
        arguments = ", ".join(f"{t}: cute.Tensor" for t in self.names)
        steps = -(-taps * channels // THREADS)
        spots, below = [], 1
        for axis in reversed(range(n)):
            size = windows.size[axis]
            one = f"place // {below}" if below > 1 else "place"
            spots.insert(0, "0" if size == 1 else one if below * size == taps else f"{one} % {size}")
            below *= size
        results = [f"(at[{2 + a}] + column)" if a == n - 1 and columns > 1 else f"at[{2 + a}]" for a in range(n)]
        lines = [
            "@cute.kernel",
            f"def {name}_kernel({arguments}):",
            f'    """{total:,} threads: each {width} channels of {columns} neighbouring columns."""',
            "    thread, _, _ = cute.arch.thread_idx()",
            "    block, _, _ = cute.arch.block_idx()",
            "    allocator = cutlass.utils.SmemAllocator()",
            f"    layout = cute.make_layout(({taps}, {channels}), stride=({channels}, 1))",
            "    taps = allocator.allocate_tensor(Float32, layout, byte_alignment=16)",
            f"    for step in cutlass.range_constexpr({steps}):",
            f"        i = Uint32(thread) + step * {THREADS}",
            f"        if i < {taps * channels}:",
            f"            taps[i % {taps}, i // {taps}] = Float32(read({stage.w.name}, i, 1)[0])",
            "    cute.arch.barrier()",
            f"    index = Uint32(block) * {THREADS} + Uint32(thread)",
            f"    at = {name}_at(" + (f"cutlass.min(index, Uint32({total - 1})))" if guard else "index)"),
            "    found = {}  # elements of x that several columns meet are read once",
            f"    sums = cute.make_rmem_tensor(({columns * width},), Float32)",
            "    sums.fill(0.0)",
            f"    for place in cutlass.range_constexpr({taps}):",
            f"        weights = [taps[place, at[1] + j] for j in range({width})]",
            f"        for column in cutlass.range_constexpr({columns}):",
            f"            key = (column * {windows.step[-1]} + {spots[-1]} * {windows.dilation[-1]},"
            f" place // {windows.size[-1]})",
            "            if cutlass.const_expr(key not in found):",
        ]
        more, where, tested = windows.locate(results, spots, " " * 16, n - 1 if y.shape[-1] % columns else None)
        lines += more
        lines.append(f"                vector = lanes(read({stage.x.name}, at[0] + {where}, {width}))")
        one = "Float32(select_(inside, vector[j], Float32(0.0)))" if tested else "vector[j]"
        lines += [
            f"                found[key] = [{one} for j in range({width})]",
            f"            for j in cutlass.range_constexpr({width}):",
            f"                sums[column * {width} + j] = sums[column * {width} + j] + found[key][j] * weights[j]",
            f"    for column in cutlass.range_constexpr({columns}):",
        ]
        test = [f"(index < {total})"] if guard else []
        test += [f"(at[{1 + n}] + column < {y.shape[-1]})"] if y.shape[-1] % columns else []
        indent = "        "
        if test:
            lines.append(f"{indent}if {' & '.join(test)}:")
            indent += "    "
        picks = []
        for i, (key, r) in enumerate(self.readings.items(), 2 + n + len(self.outs)):
            across, along = r.strides[1], r.strides[-1]
            count = width if across else 1
            unit = min(width, 128 // r.dtype.bits)
            whole = across == 1 and all(s % unit == 0 for a, s in enumerate(r.strides) if a != 1)
            how = "" if count == 1 or whole else ", whole=False" if across == 1 else f", {across}"
            spot = f"at[{i}]" + (f" + column * {along}" if along and columns > 1 else "")
            lines.append(f"{indent}{key}_values = lanes(read({r.tensor}, {spot}, {count}{how}))")
            picks.append((key, f"{key}_values[{'j' if count > 1 else '0'}]"))
        chosen = dict(picks)
        for i, (o, function, keys) in enumerate(self.outs, 2 + n):
            spot = f"at[{i}]" + (f" + column * {o.strides[-1]}" if columns > 1 else "")
            lines += [
                f"{indent}out = cute.make_rmem_tensor(({width},), Float32)",
                f"{indent}for j in cutlass.range_constexpr({width}):",
                f"{indent}    out[j] = {function.call(f'sums[column * {width} + j]', *(chosen[k] for k in keys))}",
                f"{indent}write({o.tensor}, {spot}, out)",
            ]
        self.text.add("\n".join(lines))
        return (f"{name}_kernel", self.names, f"grid=({-(-total // THREADS)}, 1, 1), block=({THREADS}, 1, 1)")
