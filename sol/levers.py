"""Levers: changes that make a module faster, with the gain that the attainable model predicts, largest first.

A lever compares the predicted time of PyTorch eager with the same run changed in one respect, so the gains of several
levers do not simply add up. `action` is stable: the planner has an action of the same name for each that it can try.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from sol.bounds import external_bytes, fused_bound, legal_classes, live_ops, native_class, recast
from sol.cost.attention import chains
from sol.cost.cost import canonical
from sol.cost.fusion import groups, tail
from sol.cost.graph_costs import costs_of, parts_of
from sol.cost.needed_parts import vector_share
from sol.cost.op_table import LAYOUT_COPIES
from sol.graph import Op, OpGraph
from sol.hardware import Hardware
from sol.model.eager import attention_ms, library_product, predict_eager, product_dims
from sol.model.prediction import Attainable, StageTime, stream_ms
from sol.model.tiles import LAUNCH_MS, Product, Tiling, tile_time


@dataclass(frozen=True)
class Lever:
    """`saves_ms` against the predicted eager time of `cls`; `speedup` = before / after; `op`: the op, or "" for the
    module.

    For split_k and stream_k, `before` has a plain tiled kernel in place of the library's. `target`: the class that
    lower_class moves to, else "".
    """

    # fuse_attention | fuse_tail | fuse_pointwise | lower_class | split_k | stream_k | drop_copy | align | channels_last
    action: str
    title: str
    why: str
    saves_ms: float
    speedup: float
    cls: str
    op: str = ""
    target: str = ""


def _mb(n: float) -> str:
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


class _Levers:
    def __init__(self, graph: OpGraph, hw: Hardware, cls: str):
        self.original, self.hw, self.cls = graph, hw, cls
        low = native_class(graph) == "f32" and cls in ("f16", "bf16", "fp8")
        self.graph = recast(graph, "f16" if cls == "f16" else "bf16") if low else graph
        self.costs = costs_of(self.graph)
        self.eager: Attainable = predict_eager(graph, hw, cls, autocast=True)
        self.stage: dict[str, StageTime] = {s.name: s for s in self.eager.stages}
        bound = fused_bound(graph, hw, cls)
        self.limit, self.bound_by = bound.ms, bound.bound_by
        self.levers: list[Lever] = []
        self.fused: set[str] = set()  # ops in the tail of some product

    def add(
        self,
        action: str,
        title: str,
        why: str,
        saves: float,
        op: str = "",
        before: float | None = None,
        limit: float | None = None,
        target: str = "",
    ) -> None:
        """Append a lever if it saves time. The time after it is at least the limit of its resulting class."""
        before = self.eager.ms if before is None else before
        saves = min(saves, before - (self.limit if limit is None else limit))
        if saves > 0:
            speedup = before / max(before - saves, 1e-6)
            self.levers.append(Lever(action, title, why, saves, speedup, self.cls, op, target))

    def merged(self) -> list[Lever]:
        """Join equal levers of several ops (the layers of a transformer) into one with their total saving, and drop the
        levers that save almost nothing."""
        alike: dict[tuple[str, str, str], list[Lever]] = {}
        for lever in self.levers:
            what = lever.title.replace(lever.op, "...") if lever.op else lever.title
            alike.setdefault((lever.action, what, lever.why), []).append(lever)
        out = []
        for first, *others in alike.values():
            if others:
                # Each was compared with a module that is changed at one op alone, so the times before add up too.
                start = [x.saves_ms / (1 - 1 / x.speedup) for x in (first, *others)]
                before = self.eager.ms + sum(ms - self.eager.ms for ms in start)
                saves = min(sum(x.saves_ms for x in (first, *others)), before - self.limit)
                named = bool(first.op) and first.op in first.title
                place = f"{first.op} and {len(others)} like it"
                title = first.title.replace(first.op, place) if named else f"{first.title}, {len(others) + 1} times"
                first = replace(
                    first,
                    title=title,
                    why=f"{first.why} (each)",
                    saves_ms=saves,
                    speedup=before / max(before - saves, 1e-6),
                )
            if first.saves_ms > 0.002 * self.eager.ms:
                out.append(first)
        return out

    def attention(self) -> None:
        """Written-out attention as one kernel, which reads queries, keys and values and never writes a score."""
        for chain in chains(self.graph):
            stages = [self.stage[o.name] for o in chain.ops if o.name in self.stage]
            if not stages:
                continue
            self.fused |= {o.name for o in chain.ops}
            needed, costs = parts_of(self.graph)[0], self.costs
            special = costs[chain.softmax.name].special * vector_share(chain.softmax, "norm", self.graph, needed)
            inside = {n for o in chain.ops for n in o.outputs}
            read = {n for o in chain.ops for n in o.inputs} - inside
            moved = sum(self.graph.tensors[n].bytes for n in (*read, *chain.out.outputs))
            matrix = sum(costs[o.name].must for o in (chain.scores, chain.out))
            names = ", ".join(canonical(o.op) for o in chain.ops if o.name in self.stage)
            scores = self.graph.tensors[chain.scores.outputs[0]]
            self.add(
                "fuse_attention",
                f"Run {names} as one flash-style attention kernel",
                f"the {_mb(scores.bytes)} of scores stay on the chip: {len(stages)} launches now write and read them",
                sum(s.ms for s in stages) - attention_ms(matrix, special, moved, self.hw, self.cls),
                chain.scores.name,
            )

    def fusion(self) -> None:
        fused = self.fused
        for root in live_ops(self.graph):
            if self.costs[root.name].kind not in ("matrix", "conv") or root.name not in self.stage:
                continue
            if root.name in self.fused:
                continue
            ops, extra = tail(self.graph, root)
            if not ops:
                continue
            fused |= {o.name for o in ops}
            added = sum(self.graph.tensors[n].bytes for n in extra)
            moved = sum(self.stage[o.name].bytes for o in ops if o.name in self.stage)
            saves = sum(self.stage[o.name].ms for o in ops if o.name in self.stage)
            saves -= added / self.hw.copy_rate * 1e3
            names = ", ".join(canonical(o.op) for o in ops)
            self.add(
                "fuse_tail",
                f"Fuse {names} into the epilogue of {root.name}",
                f"saves {_mb(max(0.0, moved - added))} of traffic and {len(ops)} launch{'es' if len(ops) > 1 else ''}: "
                f"the values are still in registers when the product is done",
                saves,
                root.name,
            )
        rest = [o for o in live_ops(self.graph) if o.name in self.stage and o.name not in fused]
        loose = {o.name for o in rest if self.costs[o.name].kind in ("pointwise", "norm", "reduction", "pool")}
        for group in groups(self.graph, loose):
            self._one_kernel(group)

    def _one_kernel(self, group: tuple[Op, ...]) -> None:
        own = {o.name for o in group}
        touched = {n for o in group for n in (*o.inputs, *o.outputs)}
        written = {n for o in group for n in o.outputs}
        later = {n for n in written if any(o.name not in own for o in self.graph.readers.get(n, ()))}
        later |= written.intersection(self.graph.outputs)
        least = sum(self.graph.tensors[n].bytes for n in touched if n not in written or n in later)
        moved = sum(self.stage[o.name].bytes for o in group)
        names = [canonical(o.op) for o in group[:5]] + ["..."] * (len(group) > 5)
        self.add(
            "fuse_pointwise",
            f"Run {', '.join(names)} as one kernel",
            f"saves {_mb(max(0.0, moved - least))}: each op now writes what the next one reads",
            sum(self.stage[o.name].ms for o in group) - stream_ms(least, 0, self.hw),
            group[0].name,
        )

    def classes(self, allowed: tuple[str, ...]) -> None:
        for cls in allowed:
            if cls == self.cls or self.hw.peak(cls) <= self.hw.peak(self.cls):
                continue
            after = predict_eager(self.original, self.hw, cls)  # cast beforehand, as a program's weights are
            ratio = self.hw.peak(cls) / self.hw.peak(self.cls)
            bits = {"tf32": "11 significant bits", "f16": "11 significant bits and a small range"}
            bits |= {"bf16": "8 significant bits", "fp8": "3 or 4 significant bits"}
            kinds = {self.costs[o.name].kind for o in live_ops(self.graph)}
            gain = f"the matrix peak is {ratio:.1f} times that of {self.cls}"
            if not kinds & {"matrix", "conv", "attention"}:
                gain = "intermediate tensors take fewer bytes"
            elif self.bound_by == "memory":
                gain = "a weight that is cast once takes fewer bytes"
            self.add(
                "lower_class",
                f"Use the {cls} class",
                f"{gain}, at {bits.get(cls, 'less precision')}: decide whether that is enough",
                self.eager.ms - after.ms,
                limit=fused_bound(self.original, self.hw, cls).ms,
                target=cls,
            )

    def quantisation(self) -> None:
        for op in live_ops(self.graph):
            c = self.costs[op.name]
            if c.kind != "matrix" or op.name not in self.stage:
                continue
            dims = product_dims(op, self.graph)
            if dims is None or min(dims[1:3]) == 1:
                continue
            l, m, n, k = dims[:4]  # noqa: E741
            out = self.graph.tensors[op.outputs[0]]
            width = self.graph.tensors[op.inputs[0]].bytes / max(1, self.graph.tensors[op.inputs[0]].elements)
            p = Product(l, m, n, k, self.cls, width, out.bytes / max(1, out.elements))
            depth = max(16, int(128 // width))
            tile = (128, 128, depth)
            plain = tile_time(p, Tiling(tile), self.hw)
            before = self.eager.ms - self.stage[op.name].ms + plain.ms  # the module with a kernel that does not split
            tiles, sms = plain.tiles, self.hw.sms
            if tiles < 0.75 * sms and k >= 4 * depth:
                options = [s for s in (2, 4, 8, 16, ceil(sms / tiles)) if s * 2 * depth <= k]
                best = min(
                    (tile_time(p, Tiling(tile, scheduler="split_k", splits=s), self.hw) for s in options),
                    key=lambda t: t.ms,
                    default=plain,
                )
                self.add(
                    "split_k",
                    f"Split K in {op.name}",
                    f"{tiles} tiles of 128x128 leave {sms - tiles} of {sms} SMs idle "
                    f"(gain over a kernel that does not split)",
                    plain.ms - best.ms,
                    op.name,
                    before,
                )
            elif plain.waves > 1 and plain.busy < 0.85:
                stream = tile_time(p, Tiling(tile, scheduler="stream_k"), self.hw)
                self.add(
                    "stream_k",
                    f"Schedule {op.name} with stream-K, or change its tile",
                    f"{tiles} tiles are {tiles / sms:.2f} waves of {sms} SMs: many SMs idle in the last wave "
                    f"(gain over whole tiles of 128x128)",
                    plain.ms - stream.ms,
                    op.name,
                    before,
                )
            stage = self.stage[op.name]
            if stage.slowed == "unaligned":
                good = library_product(p, self.hw)
                self.add(
                    "align",
                    f"Pad {op.name} to rows of 16 bytes",
                    f"{m}x{n}x{k} has rows that are not a multiple of 16 bytes, which the fast kernels need",
                    stage.ms - good.ms,
                    op.name,
                )

    def copies(self) -> None:
        costs = self.costs
        changes = {o.name for o in live_ops(self.graph) if costs[o.name].kind == "copy" and self._only_changes(o)}
        for s in self.eager.stages:
            if s.name in changes - self.fused:
                self.add(
                    "drop_copy",
                    f"Drop the copy {s.name}",
                    f"it moves {_mb(s.bytes)} only to change layout or type; read the old layout instead",
                    s.ms,
                    s.name,
                )
            if s.parts.get("layout"):
                self.add(
                    "channels_last",
                    f"Keep {s.name} in channels-last",
                    "the tensor-core kernels read NHWC: the library now converts the input and the output",
                    s.parts["layout"] + 2 * LAUNCH_MS,
                    s.name,
                )

    def _only_changes(self, op: Op) -> bool:
        """Return True if the reader of a copy could do its work: a change of type, or of layout for a product, which
        reads either. Creating tensors (`zeros`) or joining them (`cat`) is work of its own, and so is a copy from an
        input to an output."""
        if canonical(op.op) not in LAYOUT_COPIES:
            return False
        if self._through_views(op.inputs[0]) not in self.graph.producer and self._returned.intersection(op.outputs):
            return False
        before, after = (self.graph.tensors[n] for n in (op.inputs[0], op.outputs[0]))
        return before.dtype != after.dtype or self._read_by_a_product(op.outputs[0])

    def _read_by_a_product(self, name: str) -> bool:
        """Return True if a product reads a tensor or a view of it. Views may meet again: each is looked at once."""
        waiting, seen = [name], {name}
        while waiting:
            for op in self.graph.readers.get(waiting.pop(), ()):
                kind = self.costs[op.name].kind
                if kind in ("matrix", "conv"):
                    return True
                if kind == "view":
                    waiting += [n for n in op.outputs if n not in seen]
                    seen.update(op.outputs)
        return False

    @cached_property
    def _returned(self) -> set[str]:
        """The tensors whose memory the module's results view."""
        return {self._through_views(n) for n in self.graph.outputs}

    def _through_views(self, name: str) -> str:
        """The tensor whose memory this one views."""
        producer, costs = self.graph.producer, self.costs
        while name in producer and costs[producer[name].name].kind == "view" and producer[name].inputs:
            name = producer[name].inputs[0]
        return name


def levers(graph: OpGraph, hw: Hardware, cls: str, allowed: tuple[str, ...] | None = None) -> tuple[Lever, ...]:
    """Levers for a graph in class `cls`, the largest saving first. `allowed`: classes that may be proposed."""
    search = _Levers(graph, hw, cls)
    if not search.eager.stages or not external_bytes(graph):
        return ()
    search.attention()
    search.fusion()
    search.classes(legal_classes(graph, hw) if allowed is None else allowed)
    search.quantisation()
    search.copies()
    return tuple(sorted(search.merged(), key=lambda lever: -lever.saves_ms))
