"""Tokens -> operations and attributes in the order of the text, and the words that no rule knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playground.words.cursor import Cursor
from playground.words.tokens import Token
from playground.words.vocabulary import (
    ALONE,
    AXES,
    BEFORE_AXES,
    COUNTED_ONLY,
    FILLER,
    FLAGS,
    NOUNS,
    OPERATIONS,
    OTHER_TYPES,
    STRONG,
    TYPES,
)

REDUCING = frozenset(("sum", "mean", "max", "min", "logsumexp", "softmax", "log_softmax"))
NUMERIC = frozenset(("add", "sub", "mul", "div", "max", "min"))
_FORWARD = frozenset(("kernel", "stride", "padding", "dilation", "slope", "alpha", "output_padding", "m", "n", "k"))
_SIGNS = {"+": "add", "*": "mul", "×": "mul", "/": "div", "÷": "div", "-": "sub", "@": "matmul"}
_BOUNDS = frozenset((
    "between", "to", "at", "from", "and", "with", "min", "max", "of", "range", "within", "a", "the", "lower", "upper",
    "bound", "in", "or", "most", "least", "below", "above", "value", "values",
))  # fmt: skip
_BEFORE_OPERAND = frozenset(("by", "with", "the", "a", "an", "of", "factor", "and", "constant", "number", "value"))
_INPUTS = frozenset(("residual", "input", "skip", "original", "shortcut", "identity", "x"))


@dataclass
class Item:
    """`kind`: op | attr | break | soft. `name`: of the operation or the attribute. `start`, `stop`: characters."""

    kind: str
    name: str = ""
    value: Any = None
    start: int = 0
    stop: int = 0
    attrs: dict[str, Any] = field(default_factory=dict)


class Scan(Cursor):
    """One pass over the tokens. `items`: what was read; `unknown`: (start, stop) of what was not."""

    def __init__(self, row: list[Token]):
        super().__init__(row)
        self.items: list[Item] = []
        self.unknown: list[tuple[int, int]] = []
        self.last: Item | None = None  # operation
        self.swap = False
        self.waiting: list[tuple[str, Item]] = []  # "(": applied where the bracket closes; "of": after the next one
        while self.i < len(row):
            self._step()
        while self.waiting:
            self._emit(self.waiting.pop()[1])

    def _step(self) -> None:
        token = self.row[self.i]
        if token.kind == "end":
            self._break()
        elif token.kind == "comma":
            self._put(Item("soft"))
        elif token.kind in ("num", "size"):
            self._number()
            return
        elif token.kind == "word":
            self._word()
            return
        elif token.kind == "arrow":
            self._put(Item("soft"))
        else:
            self._sign(token)
            return
        self.i += 1

    # ---- helpers ----

    def _put(self, item: Item) -> None:
        self.items.append(item)

    def _break(self) -> None:
        self.swap = False
        while self.waiting and self.waiting[-1][0] == "of":
            self._emit(self.waiting.pop()[1])
        if self.items and self.items[-1].kind != "break":
            self._put(Item("break"))

    def _emit(self, op: Item) -> None:
        """Append an operation, or put it before the last one: "preceded by", "softmax after a product"."""
        near = range(len(self.items) - 1, max(-1, len(self.items) - 40), -1)
        at = next((i for i in near if self.swap and self.items[i] is self.last), len(self.items))
        self.items.insert(at, op)
        self.last, self.swap = op, False

    def _attr(self, name: str, value: Any, start: int, stop: int) -> None:
        self._put(Item("attr", name, value, self.row[start].start, self.row[stop - 1].stop))
        self.i = stop

    # ---- numbers ----

    def _number(self) -> None:
        i, token = self.i, self.row[self.i]
        values, j = [token.value], i + 1
        while (
            token.kind == "num"
            and (self._kind(j) == "arrow" or self._is(j, "to", "into"))
            and (self._kind(j + 1) == "num" or (self._is(j + 1, "back") and self._kind(j + 2) == "num"))
        ):
            k = j + 1 if self._kind(j + 1) == "num" else j + 2
            values.append(self.row[k].value)
            j = k + 1
        n, kind = self._phrase(NOUNS, j)
        if len(values) > 1:
            self._attr("chain", values, i, j + (n if kind in ("channels", "features", "out", "in", "hidden") else 0))
            return
        if n and kind in _FORWARD and self._kind(self._after_link(j + n)) in ("num", "size"):
            n = 0
        many, op = self._phrase(OPERATIONS, j)
        if many > n or (many and op[0] != "linear" and many == n):
            n = 0
        if token.kind == "size":
            labels = {"kernel": "kernel", "image": "image", "size": "size", "in": "size"}
            if n and kind in labels:
                self._attr("matrix" if kind == "size" else labels[kind], token.value, i, j + n)
            else:
                self._attr("size", token.value, i, j)
            return
        word = self._stems[j] if n else ""
        layers = self._is(j, "layer") or (self._is(j, "linear") and self._is(j + 1, "layer"))
        if token.value == 2 and layers and self.row[i].kind == "num":
            self._attr("layers2", True, i, j + 1)
        elif n and (kind in ("image", "size") or (word == "sequence" and n == 1 and self._is(j + n, "of"))):
            self._attr("channels" if self._stems[j : j + 2] == ["feature", "map"] else "batch", token.value, i, j + n)
            k = self._after_link(self.i)
            if kind == "image" and k > self.i and self._kind(k) == "size":  # 32 images of 8x8
                self._attr("image", self.row[k].value, self.i, k + 1)
        elif n:
            self._attr(kind, token.value, i, j + n)
            counted = word in ("row", "vector", "sample") and self._is(self.i, "of")
            if counted and self._kind(self.i + 1) == "num" and not self._phrase(NOUNS, self.i + 2)[0]:
                self._attr("features", self.row[self.i + 1].value, self.i, self.i + 2)
            if kind == "heads" and self._is(self.i, "of", "with"):
                k = self.i + 1 + self._is(self.i + 1, "size", "dimension", "width")
                if self._kind(k) == "num":
                    self._attr("head_dim", self.row[k].value, self.i, k + 1 + self._is(k + 1, "dimension", "feature"))
        else:
            self._attr("bare", token.value, i, j)

    # ---- words ----

    def _word(self) -> None:
        i = self.i
        if self._axis() or self._named():
            return
        if self._is(i, "x") and self._kind(i - 1) == self._kind(i + 1) == "size":
            self._operation("matmul", {"join": True}, i, i + 1)
            return
        n_type, dtype = self._phrase(TYPES, i)
        n_op, op = self._phrase(OPERATIONS, i)
        n_noun, noun = self._phrase(NOUNS, i)
        n_flag, flag = self._phrase(FLAGS, i)
        j = self._after_link(i + n_noun)
        counted = n_noun and self._kind(j) in ("num", "size")
        if counted and tuple(self._stems[i : i + n_noun]) in COUNTED_ONLY and not self._is(i + n_noun, "=", ":"):
            counted = False
        if counted and n_noun >= max(n_op, n_flag, n_type):
            self._noun(noun, i, j)
        elif n_type and n_type >= max(n_op, n_flag):
            self._attr("dtype", dtype, i, i + n_type)
        elif n_flag and n_flag >= n_op and not (n_flag == n_op == 1 and flag[0] == "batched"):
            self._attr(flag[0], flag[1], i, i + n_flag)
        elif n_op:
            self._operation(op[0], dict(op[1]), i, i + n_op)
        elif self._stems[i] in OTHER_TYPES:
            self._attr("other_type", self.row[i].text, i, i + 1)
        elif self._is(i, "to", "into") and self._kind(i + 1) == "num":
            n, kind = self._phrase(NOUNS, i + 2)
            many = n if kind in ("channels", "features", "out", "in", "hidden") else 0
            self._attr("out", self.row[i + 1].value, i, i + 2 + many)
        elif self._is(i, "over") and self._wide(i + 1):
            self._attr("features", self.row[i + 1].value, i, i + 2 + self._is(i + 2, "value", "element"))
        elif self._is(i, "bias"):
            self._attr("bias_word", True, i, i + 1)
        elif self._turned(i) or (
            self._is(i, "two", "both") and (self._kind(i + 1) == "size" or self._is(i + 1, "matrix"))
        ):
            self.i += 1
        else:
            if self._stems[i] in STRONG:
                self._break()
            elif self._is(i, "and"):
                self._put(Item("soft"))
            elif self._stems[i] not in FILLER and self.row[i].text not in FILLER:
                self.unknown.append((self.row[i].start, self.row[i].stop))
            self.i += 1

    def _wide(self, i: int) -> bool:
        """Return True for a width without a noun: "layer norm over 4096 values". Small numbers are axes."""
        return self._kind(i) == "num" and self.row[i].value > 8 and not self._phrase(NOUNS, i + 1)[0]

    def _turned(self, i: int) -> bool:
        """Return True for a word behind which stands what comes first, and remember it."""
        plain = self.items and self.items[-1].kind in ("op", "attr")
        after = self._is(i, "after") and plain and not self._is(i + 1, "that", "which", "this", "it", "wards")
        if self.last is not None and (after or (self._is(i, "preceded", "following") and self._is(i + 1, "by", "a"))):
            self.swap = True
        return self.swap and self._is(i, "after", "preceded", "following")

    def _noun(self, kind: str, i: int, j: int) -> None:
        """A noun before its number: "stride 2", "images of size 224x224", "channels 64 to 128"."""
        token = self.row[j]
        if kind in ("in", "out", "channels", "features") and (self._kind(j + 1) == "arrow" or self._is(j + 1, "to")):
            self.i = j
            self._number()
        elif kind in ("in", "image", "size") and token.kind == "size":
            self._attr({"in": "matrix", "size": "size_of"}.get(kind, kind), token.value, i, j + 1)
        elif kind == "batch" and token.kind == "size":
            self.i = j
            self._number()
        elif kind == "image":
            self._attr("image", (token.value,), i, j + 1)
        elif kind == "size":
            self._attr("size_of", (token.value,), i, j + 1)
        else:
            self._attr(kind, token.value, i, j + 1)

    def _axis(self) -> bool:
        """An axis: "over the last dimension", "dim=1", "row-wise"."""
        i = self.i
        reducing = self.last is not None and self.last.name in REDUCING
        opening = self.waiting and self.waiting[-1][1].name in REDUCING
        if (reducing or opening) and self._is(i, "dimension", "axis"):
            j = self._after_link(i + 1)
            if self._kind(j) == "num" and abs(self.row[j].value) <= 5:
                self._attr("axis", self.row[j].value, i, j + 1)
                return True
        n, axis = self._phrase(AXES, i)
        if n and tuple(self._stems[i : i + n]) in ALONE:
            self._attr("axis", axis, i, i + n)
            return True
        if (reducing or opening) and self._stems[i] in BEFORE_AXES:
            j = self._skip(i + 1, frozenset(("the", "its", "their")))
            n, axis = self._phrase(AXES, j)
            if self._is(j, "dimension", "axis") and self._kind(self._after_link(j + 1)) == "num":
                self.i = j
                return self._axis()
            if n and (self._stems[i] != "of" or self._is(i + 1, "each", "every", "all")):
                self._attr("axis", axis, i, j + n)
                return True
        if reducing and self._is(i, "each", "every", "per") and self._kind(i + 1) == "word":
            self.unknown.append((self.row[i].start, self.row[i + 1].stop))  # "for each channel": which axes go?
            self.i += 2
            return True
        return False

    def _named(self) -> bool:
        """A name with its size: "x is 512x1024"."""
        i = self.i
        if self.row[i].text not in ("x", "a", "w", "b", "weight", "weights") or not self._is(
            i + 1, "is", "=", ":", "has"
        ):
            return False
        j = i + 2
        while self._is(j, "of", "shape", "a", "size", "has"):
            j += 1
        if self._kind(j) != "size":
            return False
        self._attr("named", (self.row[i].text[0], self.row[j].value), i, j + 1)
        return True

    def _sign(self, token: Token) -> None:
        i = self.i
        if token.text in _SIGNS:
            before, after = self._at(i - 1), self._at(i + 1)
            sided = before is not None and (before.kind != "sign" or before.text == ")") and after is not None
            if sided and after.kind in ("num", "word", "size"):
                joined = token.glued and after.glued and after.kind == "word" and len(after.text) > 1
                if not (joined and token.text == "/"):  # conv/relu
                    self._operation(_SIGNS[token.text], {}, i, i + 1)
                    return
        elif token.text == ")":
            while self.waiting and self.waiting[-1][0] == "of":
                self._emit(self.waiting.pop()[1])
            if self.waiting:
                self._emit(self.waiting.pop()[1])
        elif token.text not in "([]:=!?{}&^":
            self.unknown.append((token.start, token.stop))
        self.i += 1

    def _operation(self, name: str, attrs: dict[str, Any], i: int, j: int) -> None:
        """An operation, with the number or the tensor that it needs behind it."""
        op = Item("op", name, None, self.row[i].start, self.row[j - 1].stop, attrs)
        if name in NUMERIC and "number" not in attrs:
            j = self._operand(op, j)
        elif name in ("clamp", "hardtanh") and "lo" not in attrs:
            j = self._bounds(op, j)
        elif name == "matmul" and self.row[i].text == "@" and self._is(j, "w", "weight", "weights"):
            op.name, op.attrs["named"] = "linear", True
            op.attrs["flip"] = self._is(j + 1, ".", "^") and self._is(j + 2, "t")
            j += 3 if op.attrs["flip"] else 1
        elif name == "matmul" and self.row[i].text == "@":
            op.attrs["join"] = True
        elif name in ("linear", "conv") and self._kind(j) == "size" and self.row[j].text == "[]" and self.row[j].glued:
            op.attrs |= dict(zip(("in", "out", "kernel"), self.row[j].value, strict=False))  # conv2d(64, 128, 3)
            if "kernel" in op.attrs:
                op.attrs["kernel"] = (op.attrs["kernel"],)
            j += 1
        elif name == "dropout":
            j = self._after_link(j) + 1 if self._kind(self._after_link(j)) == "num" else j
        elif name in ("elu", "leaky_relu") and self._is(j, "(") and self._kind(j + 1) == "num":
            op.attrs["slope" if name == "leaky_relu" else "alpha"], j = self.row[j + 1].value, j + 3
        op.stop, self.i = self.row[j - 1].stop, j
        if self._is(j, "(") and name not in ("add", "sub", "mul", "div"):
            self.waiting.append(("(", op))
            self.i += 1
        elif self._is(j, "of") and self._comes(j + 1):
            self.waiting.append(("of", op))
        else:
            self._emit(op)
            while self.waiting and self.waiting[-1][0] == "of":
                self._emit(self.waiting.pop()[1])

    def _comes(self, i: int) -> bool:
        """Return True if an operation stands in the next few words: "the sum of the product of"."""
        for j in range(i, i + 5):
            if self._kind(j) in ("end", "comma", "") or self._stems[j] in STRONG:
                return False
            n, op = self._phrase(OPERATIONS, j)
            if n and op[0] not in ("residual", "add", "mul", "div", "sub"):
                return True
        return False

    def _operand(self, op: Item, j: int) -> int:
        k = self._skip(
            j, frozenset(("by", "with", "the", "a", "an", "of", "factor", "and", "to", "constant", "number"))
        )
        k = self._skip(k, frozenset(("by", "with", "the", "a", "an", "of", "factor", "value", "constant")))
        if self._kind(k) == "num" and not self._phrase(NOUNS, k + 1)[0] and not self._chained(k):
            if op.name not in ("max", "min") or self._is(j, "with", "of", "and", "("):
                op.attrs["number"] = self.row[k].value
                return k + 1
        elif op.name == "mul" and self._kind(k) == "size":
            op.name, op.attrs["join"] = "matmul", True
        elif op.name == "add" and self._is(k, *_INPUTS):
            op.name, j = "residual", k + 1
            while self._is(j, "connection", "input", "x", "add", "residual"):
                j += 1
        elif op.name == "add" and (self._is(k, "bias") or (self._is(k, "b") and self.row[j - 1].text == "+")):
            op.name, j = "bias", k + 1
        elif self._is(k, "learn", "per") or self._is(k + 1, "learn"):
            op.attrs["learn"] = True
        elif op.name in ("max", "min") and self._is(j, "with"):
            op.attrs["tensor"] = True
        return j

    def _bounds(self, op: Item, j: int) -> int:
        """The limits of clamp: "between -1 and 1", "to [0, 6]", "at min 0"."""
        numbers, words, k, end = [], [], j, j
        while k < len(self.row) and k < j + 12 and len(numbers) < 2:
            token = self.row[k]
            if token.kind == "num" and not self._phrase(NOUNS, k + 1)[0]:
                numbers.append(token.value)
                end = k + 1
            elif token.text == "[]" and len(token.value) == 2 and not numbers:
                numbers, end = list(token.value), k + 1
            elif self._stems[k] in _BOUNDS or token.text in ("=", ":"):
                words.append(self._stems[k])
            else:
                break
            k += 1
        if len(numbers) == 2:
            op.attrs |= {"lo": numbers[0], "hi": numbers[1]}
        elif numbers:
            op.attrs["hi" if {"max", "upper", "most", "above"} & set(words) else "lo"] = numbers[0]
        return end
