"""The kernels of a reduction: `Rows` along the contiguous axis, `Columns` across it."""

from dataclasses import astuple

from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import THREADS, Element
from dsl.lower.cute.reduce import folds
from dsl.lower.cute.reduce.reduce_writer import Kernels, Reduction, Writer
from dsl.lower.cute.reduce.shares import MANY_THREADS, many_columns, of_columns, of_rows
from dsl.lower.cute.space import (
    MergedSpace,
    Space,
    aligned_vector,
)
from dsl.lower.cute.stage import CUTE, Part, Text
from dsl.lower.cute.walk import MOST


def add_reduction(text: Text, job: Reduction) -> Kernels:
    """Add the index functions and kernels of a reduction."""
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
        return Columns(text, job, merged).add()
    if _scattered(job, merged):
        # Channels-last groups: each channel is reduced as a column, and then the channels of a group are joined.
        last = set(merged.members[-1])
        columns = space.merged(lambda axis: "O" if axis in last else tags[axis])
        return Columns(text, job, columns, merged.part("O"), merged.extents[-1]).add()
    return Rows(text, job, merged).add()


def _scattered(job: Reduction, merged: MergedSpace) -> bool:
    """Return True if the elements of a result are many short runs between those of other results."""
    if job.fold == "ArgMax" or merged.tags[-3:] != ("R", "O", "R"):
        return False
    return merged.extents[-1] * job.x.dtype.bits <= 512 and merged.part("R").size > 64 * merged.extents[-1]


class Rows(Writer):
    """The kernel of a reduction whose elements are vectors along the contiguous axis."""

    def add(self) -> Kernels:
        job, name = self.job, self.job.name
        width = min(
            8, aligned_vector(self.r.extents[-1], [(job.x.base, *self.merged.strides["x"])], [job.x.dtype.bits])
        ) if self.merged.strides["x"][-1] == 1 else 1  # fmt: skip
        vectors = self.r.size // width
        threads, flight, blocks, per, self.parts = astuple(of_rows(self.outputs, vectors, width))
        rows = THREADS // threads
        rest = ", ".join(r.tensor or "place" for _, r in self.of_places)
        both = [*self.of_places, *(self.end_places if self.finishes else [])]
        shift = len(self.of_places)
        ends = f", then in {self._ends()}" if self.finishes else ""
        self.index("at", f"Of result `row`: where its elements begin in {rest}{ends}.", self.o, both, 1, "row")
        unit = f"vector of {width}" if width > 1 else "element"
        doc = f"Of its {unit} at `step`: how far that is in {rest}."
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


class Columns(Writer):
    """The kernel of a reduction whose results are neighbours along the contiguous axis."""

    def add(self) -> Kernels:
        job, name = self.job, self.job.name
        width = min(
            8, aligned_vector(self.o.extents[-1], [(job.x.base, *self.merged.strides["x"])], [job.x.dtype.bits])
        ) if self.merged.strides["x"][-1] == 1 else 1  # fmt: skip
        if job.fold in ("ArgMax", "LogSumExp", "Moments"):
            width = min(width, 4)
        columns = self.outputs // width
        many = len(self.numbers) == 1 and many_columns(self.outputs, self.r.size, width)
        threads = MANY_THREADS if many else THREADS
        across, flight, blocks, per, self.parts = astuple(of_columns(self.outputs, self.r.size, width, threads))
        down = threads // across
        rest = ", ".join(r.tensor or "place" for _, r in self.of_places)
        unit = f"vector of {width} results" if width > 1 else "result"
        both = [*self.of_places, *(self.end_places if self.finishes else [])]
        shift = len(self.of_places)
        ends = f", then in {self._ends()}" if self.finishes else ""
        self.index("at", f"Of the {unit} at `column`: where the elements begin in {rest}{ends}.", self.o, both,
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
        launches = [self._launch("kernel", f"grid=({blocks}, {self.parts}, 1), block=({threads}, 1, 1)")]
        if not self.finishes:
            launches.append(self.merge_kernel())
        note = f"{width} neighbouring results a thread"
        return Kernels(tuple(launches), self.scratch(), Part(folds.fold_text(job.fold), 40), note)


def plain_element(name: str = "acc") -> Element:
    """The identity function."""
    return Element(name, "", (), (), frozenset(), True)
