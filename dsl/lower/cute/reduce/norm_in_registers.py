"""The kernel of a norm whose groups fit in registers: each group is read once."""

from __future__ import annotations

from dsl.lower.cute.generated_kernels import FLAG
from dsl.lower.cute.reduce import folds
from dsl.lower.cute.reduce.norm import Norm
from dsl.lower.cute.space import WIDE, MergedSpace, Offset, Space, aligned_vector, index_function, reach
from dsl.lower.cute.stage import CUTE, Part, Text
from dsl.lower.cute.walk import MOST, unique

HELD = 32  # most f32 elements of a group in the registers of a thread
BLOCK = 1024

# Folds of a function of the element: (the fold, the text of the function).
_FOLDED = {"Squares": ("Sum", "{0} * {0}"), "Largest": ("Max", "cute.math.absf({0})")}


class GroupInRegisters:
    """The kernel that has a group in the registers of some lanes, a warp or a block."""

    def __init__(self, text: Text, norm: Norm, merged: MergedSpace, width: int, threads: int):
        self.text, self.norm, self.merged, self.width, self.threads = text, norm, merged, width, threads
        self.r, self.o = merged.part("R"), merged.part("O")

    @classmethod
    def of(cls, text: Text, norm: Norm) -> GroupInRegisters | None:
        """The kernel; None if a group is too large, or is not contiguous in both x and the results."""
        strides = {"x": norm.x.strides, **{f"r {k}": r.strides for k, r in norm.readings.items()}}
        strides |= {f"o{i}": o.reading.strides for i, o in enumerate(norm.outs)}
        strides |= {f"g{i}": o.reading.strides for i, o in enumerate(norm.of_rows)}
        tags = ["R" if a in norm.reduced else "O" for a in norm.order]
        merged = Space(norm.extents, strides).ordered(norm.order).merged(lambda axis: tags[axis])
        if not merged.tags or merged.tags[-1] != "R" or merged.size > MOST:
            return None
        moved = ["x", *(f"o{i}" for i in range(len(norm.outs)))]
        if any(merged.strides[label][-1] != 1 for label in moved):
            return None
        size = merged.part("R").size
        width = aligned_vector(
            merged.extents[-1],
            [merged.strides[label] for label in moved],
            [norm.x.dtype.bits, *(o.reading.dtype.bits for o in norm.outs)],
            8,
        )
        threads = 1
        while threads < BLOCK:
            if -(-size // width // threads) * width <= (HELD if threads >= 512 else HELD // 2):
                break
            threads *= 2
        if -(-size // width // threads) * width > HELD:
            return None
        return cls(text, norm, merged, width, threads)

    def add(self):
        norm, name, width, threads = self.norm, self.norm.stage.name, self.width, self.threads
        fold, values, by = norm.stats()
        fold, share = _FOLDED.get(fold, (fold, ""))
        result_keys = []
        for out in norm.outs:
            body, keys = norm.result_function(out, by, ("stat0", "stat1"), computed=True)
            self.text.add(body)
            self.text.gap(2)
            result_keys.append(keys)
        every = unique([*norm.of_keys, *(k for keys in result_keys for k in keys)])
        places = [("x", norm.x), *((f"o{i}", o.reading) for i, o in enumerate(norm.outs))]
        places += [(f"r {k}", norm.readings[k]) for k in every]
        places += [(f"g{i}", o.reading) for i, o in enumerate(norm.of_rows)]
        place = {label: i for i, (label, _) in enumerate(places)}
        names = ", ".join(r.tensor for _, r in places)
        self._index("at", f"Of group `row`: where it begins in {names}.", self.o, places, 1, "row")
        unit = f"vector of {width}" if width > 1 else "element"
        self._index("step", f"Of its {unit} at `step`: how far that is in {names}.", self.r, places, width, "step")
        groups, vectors = self.o.size, self.r.size // width
        count = -(-vectors // threads)
        block = max(threads, 256) if threads <= 32 else threads
        rows = block // threads
        guard_row, guard = groups % rows != 0, vectors % threads != 0
        tensors = [*norm.tensors, *norm.flag]
        arguments = ", ".join(f"{t}: cute.Tensor" for t in tensors)
        who = "a block" if threads > 32 else f"{threads} lanes" if threads > 1 else "a thread"
        lines = [
            "@cute.kernel",
            f"def {name}_kernel({arguments}):",
            f'    """{groups:,} groups of {self.r.size:,} elements: {who} holds one in registers."""',
            "    thread, _, _ = cute.arch.thread_idx()",
            "    block, _, _ = cute.arch.block_idx()",
            "    thread, block = Uint32(thread), Uint32(block)",
            "    row, lane = block, thread" if rows == 1
            else f"    row, lane = block * {rows} + thread // {threads}, thread % {threads}",
            f"    at = {name}_at(" + (f"cutlass.min(row, Uint32({groups - 1}))" if guard_row else "row") + ")",
            "    steps, vectors, live = [], [], []",
            f"    for i in cutlass.range_constexpr({count}):",
            f"        index = lane + i * {threads}",
        ]  # fmt: skip
        if guard:
            lines += [
                f"        live.append(index < {vectors})",
                f"        index = cutlass.min(index, Uint32({vectors - 1}))",
            ]
        lines += [
            f"        steps.append({name}_step(index))",
            f"        vectors.append(read({norm.x.tensor}, at[0] + steps[i][0], {width}))",
            f"    for i in cutlass.range_constexpr({count}):",
            "        vectors[i] = lanes(vectors[i])",
        ]
        if not norm.of.plain:
            lines += self._reads(norm.of_keys, place, "        ")
            picks = ", ".join(["vectors[i][j]", *(self._pick(k) for k in norm.of_keys)])
            lines += [
                f"        vector = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            vector[j] = {norm.of.name}({picks})",
                "        vectors[i] = vector",
            ]
        elements = "vectors"
        if share:
            elements, one = ("squares", "square") if fold == "Sum" else ("sizes", "size")
            lines += [
                f"    {elements} = []",
                f"    for i in cutlass.range_constexpr({count}):",
                f"        {one} = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            {one}[j] = {share.format('vectors[i][j]')}",
                f"        {elements}.append({one})",
            ]
        lines += [
            f"    state = {fold}.start({width})",
            f"    {fold}.fold(state, {elements}{', live' if guard else ''})",
            f"    total = {fold}.scalars(state)",
        ]
        if threads > 1:
            lines.append(f"    total = across_lanes({fold}, total, {min(threads, 32)})")
        if threads > 32:
            kinds = ", ".join(f"shared(allocator, {CUTE[d]}, ({threads // 32},))" for d in folds.NUMBERS[fold])
            lines += [
                "    allocator = cutlass.utils.SmemAllocator()",
                f"    memory = ({kinds},)",
                f"    total = across_block({fold}, total, {threads // 32}, memory)",
            ]
        lines += [
            f"    stat0, stat1 = {values[0]}, {values[1]}",
            *self._of_rows(place, f"(lane == 0) & (row < {groups})" if guard_row else "lane == 0"),
            f"    for i in cutlass.range_constexpr({count}):",
            *self._reads(unique([k for keys in result_keys for k in keys]), place, "        "),
        ]
        test = [t for t in ("live[i]" if guard else "", f"(row < {groups})" if guard_row else "") if t]
        for i, (out, keys) in enumerate(zip(norm.outs, result_keys, strict=True), 1):
            picks = ", ".join(["vectors[i][j]", "stat0", "stat1", *(self._pick(k) for k in keys)])
            lines += [
                f"        out = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            out[j] = {out.name}_result({picks})",
                *([f"        watch(greatest(Uint32(0), out), {FLAG})"] if out.name in norm.watched else []),
            ]
            store = f"write({out.name}, at[{i}] + steps[i][{i}], out)"
            lines += [f"        if {' & '.join(test)}:", f"            {store}"] if test else [f"        {store}"]
        self.text.add("\n".join(lines))
        grid = f"grid=({-(-groups // rows)}, 1, 1), block=({block}, 1, 1)"
        part = Part(folds.fold_text(fold), 40)
        return [(f"{name}_kernel", tensors, grid)], (), part, f"{min(128, width * norm.x.dtype.bits)}-bit accesses"

    def _of_rows(self, place: dict[str, int], first: str) -> list[str]:
        """The lines in which the first lane writes the results with one value for each group."""
        lines = []
        for i, out in enumerate(self.norm.of_rows):
            lines += [
                "    whole = cute.make_rmem_tensor((1,), Float32)",
                f"    whole[0] = {out.function.call('stat0')}",
                f"    if {first}:",
                f"        write({out.name}, at[{place[f'g{i}']}], whole)",
            ]
        return lines

    def _pick(self, key: str) -> str:
        lane = "0" if self.merged.strides[f"r {key}"][-1] == 0 or self.width == 1 else "j"
        return f"{key}_values[{lane}]"

    def _reads(self, keys, place, indent: str) -> list[str]:
        lines = []
        for key in keys:
            r, s = self.norm.readings[key], self.merged.strides[f"r {key}"]
            unit = min(self.width, 128 // r.dtype.bits)
            count = 1 if s[-1] == 0 or self.width == 1 else self.width
            whole = s[-1] == 1 and all(v % unit == 0 for v in s[:-1])
            how = "" if count == 1 or whole else ", whole=False" if s[-1] == 1 else f", {s[-1]}"
            i = place[f"r {key}"]
            lines.append(f"{indent}{key}_values = lanes(read({r.tensor}, at[{i}] + steps[i][{i}], {count}{how}))")
        return lines

    def _index(self, name, doc, part, places, width, argument) -> None:
        offsets = []
        for label, r in places:
            wide = r.base + reach(self.merged.extents, self.merged.strides[label]) >= WIDE
            s = part.strides[label] or (0,)
            s = (*s[:-1], s[-1] * width)
            offsets.append(Offset(label, s, r.base if part is self.o else 0, wide))
        extents = (*part.extents[:-1], part.extents[-1] // width) if part.extents else (1,)
        self.text.add(index_function(f"{self.norm.stage.name}_{name}", doc, extents, offsets, argument))
        self.text.gap(2)
