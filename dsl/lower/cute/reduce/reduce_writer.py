"""Shared parts of the reduction kernels: the job, the common text of `Rows` and `Columns`, and the merging kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsl.ir import DType
from dsl.lower.cute.generated_kernels import THREADS, Element
from dsl.lower.cute.reduce import folds
from dsl.lower.cute.space import (
    WIDE,
    MergedSpace,
    Offset,
    index_function,
    reach,
)
from dsl.lower.cute.stage import CUTE, Part, Scratch, Text
from dsl.lower.cute.walk import Reading, unique

FLIGHT = 16  # elements that a thread reads, at most, before it folds them


@dataclass(frozen=True)
class Result:
    """A tensor that a reduction writes: `function` of `value`, a text over `total` (the merged numbers)."""

    value: str
    out: Reading  # over all of x's axes, with stride 0 along the reduced ones
    function: Element
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Reduction:
    """The reduction `fold` of `of` (x's element and `readings`) over the `reduced` axes; strides are over x's axes."""

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
    """The added kernels for the launch (function, arguments, grid), their scratch, their shared text, and a note."""

    launches: tuple[tuple[str, list[str], str], ...]
    scratch: tuple[Scratch, ...]
    part: Part
    note: str


def halving(count: int, most: int) -> int:
    """The smallest power of two that is at least `count`, but at most about `most`."""
    size = 1
    while size < min(count, most):
        size *= 2
    return size


class Writer:
    """The common base of `Rows` and `Columns`."""

    def __init__(
        self, text: Text, job: Reduction, merged: MergedSpace, ends: MergedSpace | None = None, joined: int = 1
    ):
        """`joined`: neighbouring results of the first kernel that the second one joins; `ends`: the final axes."""
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
        """Return True if the first kernel stores the final results."""
        return self.parts == 1 and self.joined == 1

    def wide(self, label: str, r: Reading) -> bool:
        return r.base + reach(self.merged.extents, self.merged.strides[label]) >= WIDE

    def offsets(self, part: MergedSpace, places: list, width: int) -> list[Offset]:
        """The offsets over one part's axes, with the last one in vectors of `width`."""
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
        """The text of the values that `of` needs for one vector."""
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
        """The lines that convert the read values (a tuple, text `values`) to the f32 vector `into`."""
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
        """The lines that store every result of `total` at the offsets `at`."""
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
        arguments = [*self.arguments, *([f"{self.job.name}_{s.suffix}" for s in self.scratch()])]
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
        """The lines that store a partial state."""
        lines, spot = [], row
        if self.parts > 1:
            spot = f"({row}) * {self.parts} + Uint32(part)"
        for i, s in enumerate(self.scratch()):
            kind = CUTE[s.dtype]
            lines += [
                f"{indent}out = cute.make_rmem_tensor((1,), {kind})",
                f"{indent}out[0] = total[{i}]",
                f"{indent}write({self.job.name}_{s.suffix}, {spot}, out)",
            ]
        return lines

    def merge_kernel(self) -> tuple[str, list[str], str]:
        """Add the kernel in which a warp merges the partial states of one result. Returns its launch."""
        name, fold = self.job.name, self.job.fold
        self.text.gap(2)
        if self.text.text().count(f"def {name}_row(") == 0:
            self.index("row", f"Of result `row`: its offset in {self._ends()}.", self.ends, self.end_places, 1, "row")
        outputs, parts = self.outputs // self.joined, self.parts * self.joined
        steps = -(-parts // 32)
        partials = [f"{name}_{s.suffix}" for s in self.scratch()]
        several = f"row * {parts} + cutlass.min(lane + step * 32, Uint32({parts - 1}))"
        reads = ", ".join(f"read({p}, {several}, 1)[0]" for p in partials)
        neutral = ", ".join(NEUTRAL[fold])
        lines = self.head("merge", f"A warp merges the {parts} parts of one result.")
        lines[4] = "    block, _, _ = cute.arch.block_idx()"
        lines += [
            f"    row = cutlass.min(block * {THREADS // 32} + thread // 32, Uint32({outputs - 1}))",
            "    lane = thread % 32",
            f"    total = ({neutral}{',' if len(NEUTRAL[fold]) == 1 else ''})",
            f"    for step in cutlass.range_constexpr({steps}):",
            f"        found = ({reads}{',' if len(partials) == 1 else ''})",
        ]
        numbers = [
            f"{CUTE[d]}(select_(live, found[{i}], {n}))"
            for i, (d, n) in enumerate(zip(self.numbers, NEUTRAL[fold], strict=True))
        ]
        if parts % 32:
            lines += [
                f"        live = lane + step * 32 < {parts}",
                f"        found = ({', '.join(numbers)},)",
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
        arguments = [*self.arguments, *(f"{self.job.name}_{s.suffix}" for s in self.scratch())]
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


NEUTRAL = {
    "Sum": ("Float32(0.0)",),
    "Max": ("Float32(-Float32.inf)",),
    "Min": ("Float32(Float32.inf)",),
    "LogSumExp": ("Float32(-Float32.inf)", "Float32(0.0)"),
    "Moments": ("Float32(0.0)", "Float32(0.0)", "Float32(0.0)"),
    "ArgMax": ("Float32(-Float32.inf)", "Int32(2147483647)"),
}
