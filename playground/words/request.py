"""Each attribute goes to its operation, or to the input: items of a scan -> steps and facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playground.words.scan import REDUCING, Item, Scan
from playground.words.tokens import Unclear, place

MOST_STEPS = 48
POOLS = frozenset(("max_pool", "avg_pool"))
WINDOWED = POOLS | {"conv", "separable"}
PRODUCTS = frozenset(("linear", "mlp", "gated"))
ACCEPTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("kernel", "stride", "padding", "dilation"), WINDOWED),
    "output_padding": frozenset(("conv",)),
    "groups": frozenset(("conv", "group_norm")),
    "nd": WINDOWED | {"batch_norm", "instance_norm"},
    "depthwise": frozenset(("conv",)),
    "transposed": frozenset(("conv", "matmul")),
    **dict.fromkeys(("t1", "t2", "m", "n", "k"), frozenset(("matmul",))),
    "bias": PRODUCTS | {"conv", "separable", "attention", "transformer"},
    "slope": frozenset(("leaky_relu",)),
    "alpha": frozenset(("elu",)),
    **dict.fromkeys(("axis", "keepdim"), REDUCING),
    **dict.fromkeys(("hidden", "intermediate", "expansion"), PRODUCTS - {"linear"} | {"transformer"}),
    **dict.fromkeys(("heads", "head_dim", "causal"), frozenset(("attention", "transformer"))),
    "chain": PRODUCTS | {"conv", "separable"},
    "out": PRODUCTS | {"conv", "separable"},
    "in": PRODUCTS | {"conv", "separable"},
    "layers2": frozenset(("mlp",)),
    "whole": POOLS,
    "learn": frozenset(("mul", "add")),
    "batched": frozenset(("matmul",)),
    "approximate": frozenset(("gelu",)),
    "bare": frozenset(("linear",)),
}
# What stands before its operation: "3x3 convolution".
_BEFORE = frozenset(("kernel", "nd", "depthwise", "transposed", "causal", "whole", "layers2", "approximate", "batched"))
_ALWAYS_BEFORE = _BEFORE - {"kernel", "transposed"}
_NEAR = 40  # items between an attribute and its operation at most, so that the time stays linear
_SMALL = 15  # the largest window of "conv2d, 5x9"
NAMES = {
    "batch": "batch size", "seq": "sequence length", "image": "image size", "shape": "input shape", "in": "inputs",
    "features": "number of features", "channels": "number of channels", "dtype": "type", "out": "outputs",
    "rows": "number of rows", "cols": "number of columns",
}  # fmt: skip


@dataclass
class Step:
    """One operation with its attributes. `text`: the words that name it."""

    op: str
    attrs: dict[str, Any]
    text: str = ""


@dataclass
class Request:
    """`facts`: of the input: batch, channels, image, seq, features, rows, cols, shape, dtype. `unused`: (start, stop)
    of words that no rule could use."""

    steps: list[Step] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    unused: list[tuple[int, int]] = field(default_factory=list)


def request_of(scan: Scan, text: str) -> Request:
    """Raises Unclear for contradictions and for too many operations."""
    return _Attach(scan, text).request


def shown(value: Any) -> str:
    """A value as people write it: 3x3, 64."""
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


class _Attach:
    def __init__(self, scan: Scan, text: str):
        self.text, self.items = text, scan.items
        self.request = Request(unused=list(scan.unknown))
        self.used_items: set[int] = set()
        self._neighbours()
        self._bias_words()
        self._matrices()
        for i, item in enumerate(self.items):
            if item.kind == "attr" and i not in self.used_items:
                self._place(i, item)
        self._collect()

    # ---- where things stand ----

    def _neighbours(self) -> None:
        """For each item the clause that it is in, and the operation next to it with attributes alone between."""
        n = len(self.items)
        self.clause, self.before, self.after = [0] * n, [-1] * n, [-1] * n
        clause, op = 0, -1
        for i, item in enumerate(self.items):
            clause += item.kind == "break"
            op = i if item.kind == "op" else -1 if item.kind in ("soft", "break") else op
            self.clause[i], self.before[i] = clause, op
        op = -1
        for i in range(n - 1, -1, -1):
            kind = self.items[i].kind
            op = i if kind == "op" else -1 if kind in ("soft", "break") else op
            self.after[i] = op

    def _accepting(self, i: int, name: str, *, back: bool, clause: bool) -> Item | None:
        """The nearest operation that takes an attribute, before or behind i."""
        accepts = ACCEPTS.get(name, frozenset())
        j = i
        for _ in range(_NEAR):
            j += -1 if back else 1
            if not 0 <= j < len(self.items) or (clause and self.clause[j] != self.clause[i]):
                return None
            if self.items[j].kind == "op" and self.items[j].name in accepts:
                return self.items[j]
        return None

    def _owner(self, i: int, name: str) -> Item | None:
        accepts = ACCEPTS.get(name, frozenset())
        before = self.items[self.before[i]] if self.before[i] >= 0 else None
        after = self.items[self.after[i]] if self.after[i] >= 0 else None
        if name in _BEFORE and after is not None and after.name in accepts:
            fits = before is not None and before.name in accepts and name not in before.attrs
            if name in _ALWAYS_BEFORE or not fits:
                return after
        return (
            self._accepting(i, name, back=True, clause=True)
            or self._accepting(i, name, back=False, clause=True)
            or self._accepting(i, name, back=True, clause=False)
            or self._accepting(i, name, back=False, clause=False)
        )

    def _first(self, op: Item) -> bool:
        """Return True for the first operation that has a width."""
        return next((x for x in self.items if x.kind == "op" and x.name in ACCEPTS["out"]), None) is op

    # ---- attributes ----

    def _place(self, i: int, item: Item) -> None:
        name, value = item.name, item.value
        if name == "other_type":
            self._unused(item)
        elif name in ("size", "matrix", "size_of", "named"):
            self._size(i, item)
        elif name in ("channels", "features"):
            self._width(i, item)
        elif name == "bare":
            self._bare(i, item)
        elif name in ACCEPTS:
            owner = self._owner(i, name)
            if owner is not None:
                self._give(owner, name, value, item)
            elif name in ("in", "out", "hidden"):
                self._fact("features", value, item)
            elif name == "batched":
                pass
            else:
                self._unused(item)
        elif name in ("square",):
            pass
        else:
            self._fact(name, value, item)

    def _bare(self, i: int, item: Item) -> None:
        before = self.items[self.before[i]] if self.before[i] >= 0 else None
        if before is not None and before.name == "linear" and "out" not in before.attrs:
            before.attrs["out"] = item.value
        else:
            self._unused(item)

    def _width(self, i: int, item: Item) -> None:
        """64 channels, 1024 features: of the input, or of the operation's result if the input's are known."""
        kinds = ("conv", "separable") if item.name == "channels" else ("linear",)
        owner = self._accepting(i, "out", back=True, clause=True)
        if owner is not None and owner.name in kinds and "out" not in owner.attrs and "chain" not in owner.attrs:
            known = item.name in self.request.facts or "in" in owner.attrs or "shape" in self.request.facts
            if (known or not self._first(owner)) and not owner.attrs.get("depthwise"):
                owner.attrs["out"] = item.value
                return
        self._fact(item.name, item.value, item)

    def _size(self, i: int, item: Item) -> None:
        name, value = item.name, item.value
        if name == "named":
            self._named(item)
            return
        owner = self._owner(i, "kernel")
        near = owner is not None and max(value) <= _SMALL and not {"kernel", "whole"} & set(owner.attrs)
        adjacent = owner is not None and owner in (
            self.items[self.after[i]] if self.after[i] >= 0 else None,
            self._accepting(i, "kernel", back=True, clause=True),
        )
        if name == "size" and near and adjacent and len(value) <= 3:
            owner.attrs["kernel"] = value
        elif len(value) == 1:
            self._fact("features" if owner is None else "image", value if owner else value[0], item)
        else:
            self._fact("shape", value, item)

    def _named(self, item: Item) -> None:
        name, value = item.value
        linear = next((x for x in self.items if x.kind == "op" and x.name == "linear" and x.attrs.get("named")), None)
        if name in ("x", "a"):
            self._fact("shape", value, item)
        elif name == "w" and linear is not None and len(value) == 2:
            ends = value[::-1] if linear.attrs.get("flip") else value
            linear.attrs |= {"in": ends[0], "out": ends[1]}
        elif name != "b" or linear is None:
            self._unused(item)

    def _matrices(self) -> None:
        """The operands of matrix products: 1024x8192 times 8192x512."""
        if not any(x.kind == "op" and x.name == "matmul" for x in self.items):
            return
        current, pending = None, None
        for i, item in enumerate(self.items):
            if item.kind == "op" and item.name == "matmul":
                operands = current.attrs["operands"] if current is not None else None
                if item.attrs.pop("join", False) and operands is not None and len(operands) < 2:
                    item.kind = "soft"
                    continue
                item.attrs["operands"] = [pending] if pending else []
                item.attrs["onward"] = current is not None and not pending
                current, pending = item, None
            elif item.kind == "attr" and item.name in ("size", "matrix", "size_of", "named"):
                value = item.value[1] if item.name == "named" else item.value
                if len(value) == 1:
                    value *= 2
                full = current is None or len(current.attrs["operands"]) >= 2 - current.attrs["onward"]
                if not full:
                    current.attrs["operands"].append(value)
                elif current is None:
                    pending = value
                else:
                    continue
                self.used_items.add(i)
        if pending:
            first = next(x for x in self.items if x.kind == "op" and x.name == "matmul")
            first.attrs["operands"].append(pending)

    def _bias_words(self) -> None:
        """ "bias" alone belongs to the layer before it; behind another operation it is a step of its own."""
        last, without = None, None
        for item in self.items:
            if item.kind == "attr" and item.name == "bias" and item.value is False:
                without = last
            takes = last is not None and last.name in ACCEPTS["bias"] and last is not without
            if item.kind == "op" and item.name == "bias" and takes:
                item.kind, last.attrs["bias"] = "soft", True
            elif item.kind == "attr" and item.name == "bias_word":
                if takes:
                    item.kind = "soft"
                    last.attrs["bias"] = True
                else:
                    item.kind, item.name = "op", "bias"
            if item.kind == "op":
                last = item

    # ---- results ----

    def _give(self, op: Item, name: str, value: Any, item: Item) -> None:
        had = op.attrs.get(name, value)
        if had != value and name != "padding":
            words = self.text[op.start : op.stop]
            label = NAMES.get(name, name.replace("_", " "))
            raise Unclear(
                f"“{words}” has two values for {label}: {shown(had)} and {shown(value)}.",
                "Keep one, or put “then” between two operations.",
                [place(self.text, item.start, item.stop)],
            )
        op.attrs[name] = value

    def _fact(self, name: str, value: Any, item: Item) -> None:
        facts = self.request.facts
        if facts.setdefault(name, value) != value:
            label = NAMES.get(name, name)
            raise Unclear(
                f"The input has two values for its {label}: {shown(facts[name])} and {shown(value)}.",
                f"Keep one {label}.",
                [place(self.text, item.start, item.stop)],
            )

    def _unused(self, item: Item) -> None:
        self.request.unused.append((item.start, item.stop))

    def _collect(self) -> None:
        steps = self.request.steps
        for item in self.items:
            if item.kind != "op":
                continue
            if item.name == "twice":
                if steps:
                    steps.append(Step(steps[-1].op, dict(steps[-1].attrs), steps[-1].text))
                continue
            steps.append(Step(item.name, item.attrs, self.text[item.start : item.stop]))
            if len(steps) > MOST_STEPS:
                raise Unclear(
                    f"The description has more than {MOST_STEPS} operations.",
                    "Describe one module of a few operations, or write it as a PyTorch module.",
                )
        self.request.unused.sort()
