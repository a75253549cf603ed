"""Reductions: one value from many, along the contiguous axis (rows) or across it (columns).

rows      a lane, a warp or a block takes one result's elements in vectors, several in flight, and merges by shuffles;
columns   each thread keeps a vector of neighbouring results, the block's rows of threads share the elements of each.
Where there are fewer results than the device has room for, several blocks share one, leave partial states in memory,
and a second kernel merges those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsl.axes import axes_of
from dsl.ir import DType, Program, Reduce, TensorType
from dsl.lower import Refusal
from dsl.lower.cute import folds
from dsl.lower.cute.own import SMS, THREADS, Element, element, own_plan, refuse_types
from dsl.lower.cute.pointwise import MOST, Reading, add_launch, read_all, unique
from dsl.lower.cute.space import (
    WIDE,
    MergedSpace,
    Offset,
    Space,
    aligned_vector,
    index_function,
    load_strides,
    reach,
)
from dsl.lower.cute.stage import CUTE, Part, Scratch, StagePlan, Text, types_of

FLIGHT = 16  # elements that a thread reads before it folds them, where there are so many
_FOLD = {"sum": "Sum", "mean": "Sum", "max": "Max", "min": "Min", "logsumexp": "LogSumExp", "argmax": "ArgMax"}


@dataclass(frozen=True)
class Result:
    """One tensor that a reduction writes: `value`, a text over `total` (the merged numbers), then `function` of it."""

    value: str
    out: Reading  # over all of x's axes: 0 along those that are reduced
    function: Element
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Reduction:
    """`fold` of `of` (x's element and `readings`) over `reduced` axes of x. Strides of everything are over x's axes."""

    name: str
    extents: tuple[int, ...]
    order: tuple[int, ...]  # of x in memory
    reduced: frozenset[int]
    x: Reading
    of: Element
    keys: tuple[str, ...]
    fold: str
    results: tuple[Result, ...]
    readings: Mapping[str, Reading] = field(default_factory=dict)  # of `of` and of the results' functions


@dataclass(frozen=True)
class Kernels:
    """What a reduction added: its kernels for the launch (function, arguments, grid), memory, shared text, a note."""

    launches: tuple[tuple[str, list[str], str], ...]
    scratch: tuple[Scratch, ...]
    part: Part
    note: str


def plan(program: Program, stage: Reduce) -> StagePlan:
    types = types_of(program)
    x, rank = types[stage.x.name], len(types[stage.x.name].shape)
    axes = axes_of(stage, rank)
    reduced = frozenset(p for name in stage.over for p in axes[name])
    text, readings = Text(), {}
    of = element(stage, stage.of, f"{stage.name}_of")
    keys = read_all(of, types, axes, rank, readings)
    ends = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
    functions = [element(stage, expr, f"{name}_element") for name, expr, _ in ends]
    left = [read_left(f, types, stage, axes, reduced, rank, readings) for f in functions]
    names = unique([stage.x.name, *(r.tensor for r in readings.values()), *(name for name, _, _ in ends)])
    refuse_types(stage, types, names)
    count = 1
    for axis in reduced:
        count *= x.shape[axis]
    value = {"mean": f"total[0] * {1.0 / count!r}", "logsumexp": "LogSumExp.shift(total[0]) + cute.math.log(total[1])",
             "argmax": "total[1]"}.get(stage.op, "total[0]")  # fmt: skip
    results = tuple(
        Result(value, Reading(name, t.dtype, result_strides(t, rank, reduced, stage.keepdim)), function, keys)
        for (name, _, t), function, keys in zip(ends, functions, left, strict=True)
    )
    reading = Reading(stage.x.name, x.dtype, x.strides)
    job = Reduction(stage.name, x.shape, x.memory_order, reduced, reading, of, keys, _FOLD[stage.op], results, readings)
    for one, clause in ((of, "of"), *((f, "epilogue") for f in functions)):
        if not one.plain:
            text.add(one.text, ("", clause))
            text.gap(2)
    made = add_reduction(text, job)
    add_launch(text, stage.name, [*names, *(f"{stage.name}_{s.what}" for s in made.scratch)], made.launches)
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, made.scratch,
        of.imports.union({("cutlass", "select_")}, *(f.imports for f in functions)), [made.part], made.note,
    )  # fmt: skip


def result_strides(t: TensorType, rank: int, reduced: frozenset[int], keepdim: bool) -> tuple[int, ...]:
    """The result's strides over x's axes, 0 along the reduced ones."""
    if keepdim:
        return tuple(0 if i in reduced else s for i, s in enumerate(t.strides))
    own = iter(t.strides)
    return tuple(0 if i in reduced else next(own) for i in range(rank))


def read_left(function, types, stage, axes, reduced, rank, readings) -> tuple[str, ...]:
    """What the epilogue reads, over x's axes: the names of axes that are left mean what they mean in x."""
    keys = []
    for load in function.loads:
        t = types[load.name]
        strides = load_strides(t, load, axes, rank)
        key = "left_" + load.name + "".join(f"_{a}" for a in load.axes)
        readings[key] = Reading(load.name, t.dtype, tuple(0 if i in reduced else s for i, s in enumerate(strides)))
        keys.append(key)
    return tuple(keys)


def add_reduction(text: Text, job: Reduction) -> Kernels:
    """Adds the index functions and kernels of a reduction."""
    strides = {"x": job.x.strides, **{f"r {k}": r.strides for k, r in job.readings.items()}}
    strides |= {f"o{i}": r.out.strides for i, r in enumerate(job.results)}
    if job.fold == "ArgMax":
        place, step = [0] * len(job.extents), 1
        for axis in sorted(job.reduced, reverse=True):
            place[axis], step = step, step * job.extents[axis]
        strides["place"] = tuple(place)
    space = Space(job.extents, strides).ordered(job.order)
    tags = ["R" if axis in job.reduced else "O" for axis in job.order]
    merged = space.merged(lambda axis: tags[axis])
    if merged.size > MOST:
        raise Refusal("cute-size", f"{job.name} reduces {merged.size:,} elements; a kernel counts {MOST:,}", None)
    if not merged.tags or "R" not in merged.tags:  # every reduced axis has length 1
        zero = {k: (*s, 0) for k, s in merged.strides.items()}
        zero["x"] = (*merged.strides["x"], 1)
        merged = MergedSpace((*merged.extents, 1), zero, (*merged.tags, "R"), (*merged.members, ()))
    if merged.tags[-1] == "O":
        return _Columns(text, job, merged).add()
    if _scattered(job, merged):
        # Channels-last groups: each channel on its own as a column, a group's channels joined as its parts are.
        last = set(merged.members[-1])
        columns = space.merged(lambda axis: "O" if axis in last else tags[axis])
        return _Columns(text, job, columns, merged.part("O"), merged.extents[-1]).add()
    return _Rows(text, job, merged).add()


def _scattered(job: Reduction, merged: MergedSpace) -> bool:
    """Whether a result's elements lie in many short pieces between those of other results."""
    if job.fold == "ArgMax" or merged.tags[-3:] != ("R", "O", "R"):
        return False
    return merged.extents[-1] * job.x.dtype.bits <= 512 and merged.part("R").size > 64 * merged.extents[-1]


def _halving(count: int, most: int) -> int:
    """The least power of two that is at least `count`, at most `most`."""
    size = 1
    while size < min(count, most):
        size *= 2
    return size


class _Writer:
    """What rows and columns share."""

    def __init__(
        self, text: Text, job: Reduction, merged: MergedSpace, ends: MergedSpace | None = None, joined: int = 1
    ):
        """`joined`: neighbouring results of the first kernel that are one in the end, whose axes are `ends`."""
        self.text, self.job, self.merged = text, job, merged
        self.r, self.o = merged.part("R"), merged.part("O")
        self.outputs, self.joined, self.ends = self.o.size, joined, ends or self.o
        self.arguments = unique(
            [job.x.tensor, *(r.tensor for r in job.readings.values()), *(r.out.tensor for r in job.results)]
        )
        self.of_places = [("x", job.x), *((f"r {k}", job.readings[k]) for k in job.keys)]
        if job.fold == "ArgMax":
            self.of_places.append(("place", Reading("", DType.I32, ())))
        left = unique([k for r in job.results for k in r.keys])
        self.end_places = [(f"o{i}", r.out) for i, r in enumerate(job.results)]
        self.end_places += [(f"r {k}", job.readings[k]) for k in left]
        self.place = {label: i for i, (label, _) in enumerate(self.of_places)}
        self.end = {label: i for i, (label, _) in enumerate(self.end_places)}
        self.part = Part(folds.COMMON, 40)
        self.parts = 1  # blocks that share one result
        self.numbers = folds.NUMBERS[job.fold]

    @property
    def finishes(self) -> bool:
        """Whether the first kernel stores the results itself."""
        return self.parts == 1 and self.joined == 1

    def wide(self, label: str, r: Reading) -> bool:
        return r.base + reach(self.merged.extents, self.merged.strides[label]) >= WIDE

    def offsets(self, part: MergedSpace, places: list, width: int) -> list[Offset]:
        """Offsets over one part's axes, the last walked in vectors of `width`."""
        out = []
        for label, r in places:
            s = part.strides[label]
            s = (*s[:-1], s[-1] * width) if s else s
            out.append(Offset(label, s, r.base if part is not self.r else 0, self.wide(label, r)))
        return out

    def index(self, name: str, doc: str, part: MergedSpace, places: list, width: int, argument: str) -> None:
        extents = (*part.extents[:-1], part.extents[-1] // width) if part.extents else (1,)
        offsets = self.offsets(part, places, width) if part.extents else [
            Offset(label, (0,), r.base if part is not self.r else 0) for label, r in places
        ]  # fmt: skip
        self.text.add(index_function(f"{self.job.name}_{name}", doc, extents, offsets, argument))
        self.text.gap(2)

    def reads(self, width: int, at: str, step: str) -> str:
        """The texts of the values that `of` wants for one vector."""
        values = []
        for i, (label, r) in enumerate(self.of_places):
            if label == "place":
                continue
            s = self.merged.strides[label][-1]
            unit = min(width, 128 // r.dtype.bits)
            whole = s == 1 and all(v % unit == 0 for v in self.merged.strides[label][:-1])
            count = 1 if s == 0 or width == 1 else width
            how = "" if count == 1 or whole else ", whole=False" if s == 1 else f", {s}"
            values.append(f"lanes(read({r.tensor}, {at}[{i}] + {step}[{i}], {count}{how}))")
        return ", ".join(values)

    def of_lines(self, width: int, into: str, values: str, indent: str) -> list[str]:
        """Lines that turn what was read (a tuple, text `values`) into the vector `into` of f32."""
        if self.job.of.plain:
            return [f"{indent}{into} = {values}[0]"]
        picks = []
        for i, (label, _) in enumerate(self.of_places):
            if label != "place":
                lane = "0" if self.merged.strides[label][-1] == 0 or width == 1 else "j"
                picks.append(f"{values}[{i}][{lane}]")
        return [
            f"{indent}{into} = cute.make_rmem_tensor(({width},), Float32)",
            f"{indent}for j in cutlass.range_constexpr({width}):",
            f"{indent}    {into}[j] = {self.job.of.call(*picks)}",
        ]

    def finish(self, indent: str, at: str) -> list[str]:
        """Lines that store every result of `total` at the offsets `at`."""
        lines = []
        for i, r in enumerate(self.job.results):
            value = r.value if r.function.plain else r.function.call(
                f"({r.value})", *(f"Float32(read({self.job.readings[k].tensor}, {at}[{self.end['r ' + k]}], 1)[0])"
                                  for k in r.keys)
            )  # fmt: skip
            kind = "Int32" if self.job.fold == "ArgMax" else "Float32"
            lines += [
                f"{indent}out = cute.make_rmem_tensor((1,), {kind})",
                f"{indent}out[0] = {value}",
                f"{indent}write({r.out.tensor}, {at}[{self.end[f'o{i}']}], out)",
            ]
        return lines

    def head(self, name: str, doc: str) -> list[str]:
        arguments = [*self.arguments, *([f"{self.job.name}_{s.what}" for s in self.scratch()])]
        return [
            "@cute.kernel",
            f"def {self.job.name}_{name}({', '.join(f'{a}: cute.Tensor' for a in arguments)}):",
            f'    """{doc}"""',
            "    thread, _, _ = cute.arch.thread_idx()",
            f"    block, {'part' if self.parts > 1 else '_'}, _ = cute.arch.block_idx()",
            "    thread, block = Uint32(thread), Uint32(block)",
        ]

    def scratch(self) -> tuple[Scratch, ...]:
        if self.finishes:
            return ()
        return tuple(
            Scratch(f"partial{i}" if i else "partial", d, (self.outputs, self.parts))
            for i, d in enumerate(self.numbers)
        )

    def leave(self, indent: str, row: str) -> list[str]:
        """Lines that leave a partial state in memory."""
        lines, spot = [], row
        if self.parts > 1:
            spot = f"({row}) * {self.parts} + Uint32(part)"
        for i, s in enumerate(self.scratch()):
            kind = CUTE[s.dtype]
            lines += [
                f"{indent}out = cute.make_rmem_tensor((1,), {kind})",
                f"{indent}out[0] = total[{i}]",
                f"{indent}write({self.job.name}_{s.what}, {spot}, out)",
            ]
        return lines

    def merge_kernel(self) -> tuple[str, list[str], str]:
        """A warp merges the partial states of one result."""
        name, fold = self.job.name, self.job.fold
        self.text.gap(2)
        if self.text.text().count(f"def {name}_row(") == 0:
            self.index("row", f"Of result `row`: its offset in {self._ends()}.", self.ends, self.end_places, 1, "row")
        outputs, parts = self.outputs // self.joined, self.parts * self.joined
        steps = -(-parts // 32)
        partials = [f"{name}_{s.what}" for s in self.scratch()]
        several = f"row * {parts} + cutlass.min(lane + step * 32, Uint32({parts - 1}))"
        reads = ", ".join(f"read({p}, {several}, 1)[0]" for p in partials)
        neutral = ", ".join(_NEUTRAL[fold])
        lines = self.head("merge", f"A warp merges the {parts} parts of one result.")
        lines[4] = "    block, _, _ = cute.arch.block_idx()"
        lines += [
            f"    row = cutlass.min(block * {THREADS // 32} + thread // 32, Uint32({outputs - 1}))",
            "    lane = thread % 32",
            f"    total = ({neutral}{',' if len(_NEUTRAL[fold]) == 1 else ''})",
            f"    for step in cutlass.range_constexpr({steps}):",
            f"        found = ({reads}{',' if len(partials) == 1 else ''})",
        ]
        kept = [
            f"{CUTE[d]}(select_(live, found[{i}], {n}))"
            for i, (d, n) in enumerate(zip(self.numbers, _NEUTRAL[fold], strict=True))
        ]
        if parts % 32:
            lines += [
                f"        live = lane + step * 32 < {parts}",
                f"        found = ({', '.join(kept)},)",
            ]
        lines += [
            f"        total = {fold}.merge(total, found)",
            f"    total = across_lanes({fold}, total, 32)",
            f"    if (lane == 0) & (block * {THREADS // 32} + thread // 32 < {outputs}):",
            f"        at = {name}_row(row)",
            *self.finish("        ", "at"),
        ]
        self.text.add("\n".join(lines))
        blocks = -(-outputs // (THREADS // 32))
        return self._launch("merge", f"grid=({blocks}, 1, 1), block=({THREADS}, 1, 1)")

    def _ends(self) -> str:
        return ", ".join(r.tensor for _, r in self.end_places)

    def _launch(self, name: str, grid: str) -> tuple[str, list[str], str]:
        arguments = [*self.arguments, *(f"{self.job.name}_{s.what}" for s in self.scratch())]
        return (f"{self.job.name}_{name}", arguments, grid)

    def folding(self, per: int, threads: int, flight: int, width: int, states: str, first: str, lane: str) -> list[str]:
        """Lines that fold this thread's share: vectors `first + lane`, `+ threads`, ... of the elements of a result.

        `per`: vectors a part has; `states`: "rows" folds whole vectors, "columns" each lane on its own.
        """
        vectors = self.r.size // (width if states == "rows" else 1)
        chunk = threads * flight
        lines: list[str] = []
        base = f"{first}{lane}"
        if self.parts > 1:
            full = f"cutlass.min(Uint32({per // chunk}), (Uint32({vectors}) - Uint32(part) * {per}) // {chunk})"
            lines.append(f"    chunks = {full}")
            chunks, many = "Int32(chunks)", True
        else:
            count = vectors // chunk
            chunks, many = str(count), count > 1
            if count == 0:
                return lines + self._chunk(base, None, threads, flight, width, states, vectors, "    ")
        if many:
            lines.append(f"    for chunk in cutlass.range({chunks}, unroll=1):")
            lines += self._chunk(base, "Uint32(chunk)", threads, flight, width, states, None, "        ")
        elif chunks == "1":
            lines += self._chunk(base, None, threads, flight, width, states, None, "    ")
        if vectors % chunk:
            limit = vectors if self.parts == 1 else f"cutlass.min((Uint32(part) + 1) * {per}, Uint32({vectors}))"
            if self.parts > 1:
                lines.append(f"    limit = {limit}")
                limit = "limit"
            tail = f"{vectors // chunk}" if self.parts == 1 else "chunks"
            lines += self._chunk(base, tail, threads, flight, width, states, limit, "    ")
        return lines

    def _chunk(self, base, chunk, threads, flight, width, states, limit, indent) -> list[str]:
        name, fold = self.job.name, self.job.fold
        vectors = self.r.size // (width if states == "rows" else 1)
        start = base if chunk is None or chunk == "0" else f"{base} + {chunk} * {threads * flight}"
        guarded = limit is not None
        suffix = "_end" if guarded else ""
        ready, live = f"ready{suffix}", f"live{suffix}"
        lines = [f"{indent}{ready}, places{suffix}" + (f", {live} = [], [], []" if guarded else " = [], []")]
        lines.append(f"{indent}for i in cutlass.range_constexpr({flight}):")
        where = f"{start} + i * {threads}" if flight > 1 else start
        deeper = indent + "    "
        lines.append(f"{deeper}index{suffix} = {where}")
        if guarded:
            lines.append(f"{deeper}{live}.append(index{suffix} < {limit})")
            lines.append(f"{deeper}index{suffix} = cutlass.min(index{suffix}, Uint32({vectors - 1}))")
        lines.append(f"{deeper}step{suffix} = {name}_step(index{suffix})")
        values = self.reads(width, "at", f"step{suffix}")
        lines.append(f"{deeper}{ready}.append(({values},))")
        if fold == "ArgMax":
            step = self.merged.strides["place"][-1]
            i = self.place["place"]
            place = f"at[{i}] + step{suffix}[{i}]"
            lines.append(
                f"{deeper}places{suffix}.append([{place} + lane * {step} for lane in range({width})])"
                if states == "rows" and width > 1
                else f"{deeper}places{suffix}.append([{place}] * {width})"
            )
        lines.append(f"{indent}vectors{suffix} = []")
        lines.append(f"{indent}for i in cutlass.range_constexpr({flight}):")
        lines += self.of_lines(width, f"vector{suffix}", f"{ready}[i]", deeper)
        lines.append(f"{deeper}vectors{suffix}.append(vector{suffix})")
        more = (f", {live}" if guarded else ", None") + (f", places{suffix}" if fold == "ArgMax" else "")
        more = "" if more == ", None" else more
        if states == "rows":
            lines.append(f"{indent}{fold}.fold(state, vectors{suffix}{more})")
        else:
            lines.append(f"{indent}each_lane({fold}, states, vectors{suffix}{more})")
        return lines


_NEUTRAL = {
    "Sum": ("Float32(0.0)",),
    "Max": ("-Float32.inf",),
    "Min": ("Float32.inf",),
    "LogSumExp": ("Float32(-Float32.inf)", "Float32(0.0)"),
    "Moments": ("Float32(0.0)", "Float32(0.0)", "Float32(0.0)"),
    "ArgMax": ("Float32(-Float32.inf)", "Int32(2147483647)"),
}
_NEUTRAL["Max"], _NEUTRAL["Min"] = ("Float32(-Float32.inf)",), ("Float32(Float32.inf)",)


class _Rows(_Writer):
    """A result's elements lie in vectors along the contiguous axis."""

    def add(self) -> Kernels:
        job, name = self.job, self.job.name
        width = min(
            8, aligned_vector(self.r.extents[-1], [(job.x.base, *self.merged.strides["x"])], [job.x.dtype.bits])
        ) if self.merged.strides["x"][-1] == 1 else 1  # fmt: skip
        vectors = self.r.size // width
        threads = _halving(vectors, 32)
        if vectors >= 1024 or (vectors > 128 and self.outputs < SMS * 8):
            threads = THREADS
        flight = max(1, min(FLIGHT // width * 2 if width > 4 else FLIGHT // width, vectors // threads))
        rows = THREADS // threads
        blocks = -(-self.outputs // rows)
        per = vectors
        if threads == THREADS and blocks < 2 * SMS and vectors > 2 * threads * flight:
            chunks = -(-vectors // (threads * flight))
            parts = min(chunks, -(-4 * SMS // blocks))
            per = -(-chunks // parts) * threads * flight
            self.parts = -(-vectors // per)
        rest = ", ".join(r.tensor or "place" for _, r in self.of_places)
        both = [*self.of_places, *(self.end_places if self.finishes else [])]
        shift = len(self.of_places)
        ends = f", then in {self._ends()}" if self.finishes else ""
        self.index("at", f"Of result `row`: where its elements begin in {rest}{ends}.", self.o, both, 1, "row")
        what = f"vector of {width}" if width > 1 else "element"
        doc = f"Of its {what} at `step`: how far that is in {rest}."
        self.index("step", doc, self.r, self.of_places, width, "step")
        doc = f"{self.outputs:,} results of {self.r.size:,} elements: " + (
            "a block" if threads == THREADS else f"{threads} lanes" if threads > 1 else "a thread"
        )
        doc += " each." if self.parts == 1 else f" takes one of {self.parts} parts of each."
        lines = self.head("kernel", doc)
        if threads == THREADS:
            lines += ["    row, lane = block, thread"]
        else:
            lines += [f"    row, lane = block * {rows} + thread // {threads}, thread % {threads}"]
        guard = self.outputs % rows != 0
        live = f"cutlass.min(row, Uint32({self.outputs - 1}))" if guard else "row"
        lines += [f"    at = {name}_at({live})", f"    state = {job.fold}.start({width})"]
        first = f"Uint32(part) * {per} + " if self.parts > 1 else ""
        lines += self.folding(per, threads, flight, width, "rows", first, "lane")
        lines += [f"    total = {job.fold}.scalars(state)"]
        if threads > 1:
            lines += [f"    total = across_lanes({job.fold}, total, {min(threads, 32)})"]
        if threads == THREADS:
            kinds = ", ".join(f"shared(allocator, {CUTE[d]}, ({THREADS // 32},))" for d in self.numbers)
            lines += [
                "    allocator = cutlass.utils.SmemAllocator()",
                f"    memory = ({kinds},)",
                f"    total = across_block({job.fold}, total, {THREADS // 32}, memory)",
            ]
        test = "(lane == 0)" + (f" & (row < {self.outputs})" if guard else "")
        lines += [f"    if {test}:"]
        if self.finishes:
            self.end = {label: i + shift for label, i in self.end.items()}
            lines += self.finish("        ", "at")
        else:
            lines += self.leave("        ", "row")
        self.text.add("\n".join(lines))
        launches = [self._launch("kernel", f"grid=({blocks}, {self.parts}, 1), block=({THREADS}, 1, 1)")]
        if not self.finishes:
            launches.append(self.merge_kernel())
        note = f"{min(128, width * job.x.dtype.bits)}-bit accesses" if width > 1 else "element by element"
        return Kernels(tuple(launches), self.scratch(), Part(folds.fold_text(job.fold), 40), note)


class _Columns(_Writer):
    """Neighbouring results lie along the contiguous axis."""

    def add(self) -> Kernels:
        job, name = self.job, self.job.name
        width = min(
            8, aligned_vector(self.o.extents[-1], [(job.x.base, *self.merged.strides["x"])], [job.x.dtype.bits])
        ) if self.merged.strides["x"][-1] == 1 else 1  # fmt: skip
        if job.fold in ("ArgMax", "LogSumExp", "Moments"):
            width = min(width, 4)
        columns = self.outputs // width
        across = _halving(columns, 32)
        while across < 256 and self.r.size < THREADS // across:
            across *= 2
        down = THREADS // across
        blocks = -(-columns // across)
        flight = max(1, min(8, self.r.size // down))
        per = self.r.size
        if blocks < 2 * SMS and self.r.size > 2 * down * flight:
            chunks = -(-self.r.size // (down * flight))
            parts = min(chunks, -(-4 * SMS // blocks))
            per = -(-chunks // parts) * down * flight
            self.parts = -(-self.r.size // per)
        rest = ", ".join(r.tensor or "place" for _, r in self.of_places)
        what = f"vector of {width} results" if width > 1 else "result"
        both = [*self.of_places, *(self.end_places if self.finishes else [])]
        shift = len(self.of_places)
        ends = f", then in {self._ends()}" if self.finishes else ""
        self.index("at", f"Of the {what} at `column`: where the elements begin in {rest}{ends}.", self.o, both,
                   width, "column")  # fmt: skip
        self.index("step", f"Of the element at `step` of each: how far that is in {rest}.", self.r, self.of_places, 1,
                   "step")  # fmt: skip
        doc = f"{self.outputs:,} results of {self.r.size:,} elements: {across} x {down} threads, {width} results each"
        doc += "." if self.parts == 1 else f", {self.parts} parts."
        lines = self.head("kernel", doc)
        guard = columns % across != 0
        lines += [
            f"    x_thread, y_thread = thread % {across}, thread // {across}",
            f"    column = block * {across} + x_thread",
            f"    at = {name}_at(" + (f"cutlass.min(column, Uint32({columns - 1}))" if guard else "column") + ")",
            f"    states = [{job.fold}.start(1) for _ in range({width})]",
        ]
        first = f"Uint32(part) * {per} + " if self.parts > 1 else ""
        lines += self.folding(per, down, flight, width, "columns", first, "y_thread")
        kinds = ", ".join(f"shared(allocator, {CUTE[d]}, ({down}, {across * width}))" for d in self.numbers)
        if down > 1:
            lines += [
                "    allocator = cutlass.utils.SmemAllocator()",
                f"    memory = ({kinds},)",
                f"    for lane in cutlass.range_constexpr({width}):",
                f"        for store, number in zip(memory, {job.fold}.scalars(states[lane])):",
                f"            store[y_thread, x_thread * {width} + lane] = number",
                "    cute.arch.barrier()",
            ]
        test = [t for t in ("(y_thread == 0)" if down > 1 else "", f"(column < {columns})" if guard else "") if t]
        indent = "    "
        if test:
            lines += [f"    if {' & '.join(test)}:"]
            indent = "        "
        lines += [f"{indent}for lane in cutlass.range_constexpr({width}):"]
        if down > 1:
            lines += [
                f"{indent}    total = tuple(store[0, x_thread * {width} + lane] for store in memory)",
                f"{indent}    for other in cutlass.range_constexpr(1, {down}):",
                f"{indent}        found = tuple(store[other, x_thread * {width} + lane] for store in memory)",
                f"{indent}        total = {job.fold}.merge(total, found)",
            ]
        else:
            lines += [f"{indent}    total = {job.fold}.scalars(states[lane])"]
        if self.finishes:
            self.end = {label: i + shift for label, i in self.end.items()}
            steps = [self.merged.strides[label][-1] for label, _ in self.end_places]
            places = [f"at[{shift + i}]" + (f" + lane * {s}" if s and width > 1 else "") for i, s in enumerate(steps)]
            lines += [f"{indent}    end = ({', '.join(places)},)"]
            self.end = {label: i - shift for label, i in self.end.items()}
            lines += self.finish(indent + "    ", "end")
        else:
            lines += self.leave(indent + "    ", f"column * {width} + lane")
        self.text.add("\n".join(lines))
        launches = [self._launch("kernel", f"grid=({blocks}, {self.parts}, 1), block=({THREADS}, 1, 1)")]
        if not self.finishes:
            launches.append(self.merge_kernel())
        note = f"{width} neighbouring results a thread"
        return Kernels(tuple(launches), self.scratch(), Part(folds.fold_text(job.fold), 40), note)


def plain_element(name: str = "acc") -> Element:
    """The function that changes nothing."""
    return Element(name, "", (), (), frozenset(), True)
