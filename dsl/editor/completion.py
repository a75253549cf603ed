"""Completion: the words and legal values at a place of a text, and the meaning of a word.

While it is typed a text is usually no program. So a scan of words, which never fails, finds the context of the place,
and the checker gives types and shapes of the text before it if that parses.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, replace
from itertools import pairwise

from dsl.arch import ARCHS, DEFAULT
from dsl.axes import axes_of
from dsl.check.families import FAMILIES
from dsl.check.program import partial
from dsl.check.space import Space
from dsl.editor.vocabulary import ENTRIES, Entry, entry, vocabulary
from dsl.functions import EVERY, INDEXED, REDUCTIONS
from dsl.ir import CELLS, NORMALIZATIONS, SCANS, Reduce, Stage, TensorType
from dsl.ir import REDUCTIONS as REDUCE_OPS
from dsl.resolve import complete as completed
from dsl.resolve import seconds
from dsl.rules import legal

__all__ = ["Completion", "Completions", "complete", "describe", "vocabulary"]

MAX_OPTIONS = 60
MAX_CHARS = 65_536
_TOKEN = re.compile(r"#[^\n]*|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_.]*|->|[^\sA-Za-z0-9_]")
_WORD_SIGNS = f"{string.ascii_letters}{string.digits}_"
_EXPRESSIONS = ("epilogue", "of", "let", "also")
_FLAGS = ("prepack", "pairs", "interleave", "keepdim", "reverse")
_OPS = {"reduce": REDUCE_OPS, "normalize": NORMALIZATIONS, "scan": SCANS, "pool": ("max", "avg"), "recurrent": CELLS}


@dataclass(frozen=True)
class Completion:
    """One option. `label` is shown and inserted, `kind` is that of vocabulary.Entry, `doc` is one line."""

    label: str
    kind: str
    doc: str

    def to_json(self) -> dict:
        return {"label": self.label, "kind": self.kind, "doc": self.doc}


@dataclass(frozen=True)
class Completions:
    """The options at a place. They replace the word typed so far, which starts at column `start` (1-based)."""

    start: int
    options: tuple[Completion, ...]

    def to_json(self) -> dict:
        return {"start": self.start, "options": [o.to_json() for o in self.options]}


def complete(text: str, line: int, col: int) -> Completions:
    """The legal words and values at a place (1-based; the caret is before column `col`). It raises nothing."""
    place = _Place(text[:MAX_CHARS], line, col)
    options: dict[str, Completion] = {}
    for option in place.options():
        if option.label.startswith(place.word) and option.label != place.word:
            options.setdefault(option.label, option)
    return Completions(col - len(place.word), tuple(options.values())[:MAX_OPTIONS])


def describe(word: str, text: str = "") -> Entry | None:
    """The meaning of a word of the language, or of a name of the program `text` with its type; None if unknown."""
    if text:
        types, stages = partial(text[:MAX_CHARS])
        if types.get(word) is not None:
            description = next((f"{type(s).__name__.lower()} stage" for s in stages if s.name == word), "parameter")
            if any(a.name == word for s in stages for a in s.also):
                description = "second result of a stage"
            return Entry(word, "name", f"{word}: {types[word]}", description)
    return entry(word)


def _option(e: Entry | None, word: str, kind: str = "value") -> Completion:
    return Completion(word, e.kind if e else kind, e.doc if e else "")


class _Place:
    """The context of the caret: the word before it, the tokens before that word, and the open brackets."""

    def __init__(self, text: str, line: int, col: int):
        lines = text.split("\n")
        line = max(1, min(line, len(lines)))
        at = sum(len(x) + 1 for x in lines[: line - 1]) + max(0, min(col - 1, len(lines[line - 1])))
        before = text[:at]
        self.word = before[len(before.rstrip(_WORD_SIGNS)) :]  # a search for [A-Za-z0-9_]*\Z takes quadratic time
        self.text, self.at = text, at - len(self.word)
        self.comment = "#" in before[before.rfind("\n") + 1 :]
        self.tokens = [m for m in _TOKEN.finditer(text[: self.at]) if not m.group().startswith("#")]
        self.open: list[int] = []  # indices of the brackets not yet closed
        for i, m in enumerate(self.tokens):
            if m.group() in "([{":
                self.open.append(i)
            elif m.group() in ")]}" and self.open:
                self.open.pop()

    def token(self, i: int) -> str:
        """The text of a token, which may be counted from the end; "" if there is none."""
        return self.tokens[i].group() if -len(self.tokens) <= i < len(self.tokens) else ""

    def options(self) -> list[Completion]:
        if self.comment:
            return []
        braces = [i for i in self.open if self.token(i) == "{"]
        if not braces:
            return self._head()
        return self._body() if len(braces) == 1 else self._block(braces[1])

    # ---- outside the stages ----

    def _head(self) -> list[Completion]:
        last = self.token(-1)
        if not self.tokens:
            return [_option(entry("program"), "program")]
        results = any(t.group() == "->" for t in self.tokens)
        if last == ":" or (results and last in ("->", "(", ",") and not self._in_shape()):
            return [_option(e, e.word) for (kind, _), e in ENTRIES.items() if kind == "type"]
        return []

    def _in_shape(self) -> bool:
        return bool(self.open) and self.token(self.open[-1]) == "["

    def _body(self) -> list[Completion]:
        """The options inside the program's braces, outside a stage's block."""
        last = self.token(-1)
        if self.open and self.token(self.open[-1]) == "(":
            if last in ("(", ","):
                return self._names(self.tokens[self.open[-1] - 3].start() if self.open[-1] >= 3 else 0)
            return [Completion("T", "keyword", "the last two axes swapped")] if last == "." else []
        if last == "arch":
            return [_option(entry(a, "value"), a) for a in (*ARCHS, "auto")]
        if last == "launch":
            return [_option(entry(a, "value"), a) for a in ("graph", "stream")]
        if last == "guard":
            return [_option(entry("f32", "type"), "f32")]
        if last == "=":
            return [_option(e, e.word) for (kind, _), e in ENTRIES.items() if kind == "stage"]
        if last == "return" or (last == "," and self._returning()):
            at = max(i for i in range(len(self.tokens)) if self.token(i) == "return")
            types, stages = self._known(self.tokens[at].start())
            return [Completion(n, "name", str(t)) for n, t in types.items() if _written(n, stages)]
        first = len(self.open) == 1 and self.token(-1) == "{"
        words = ("arch", "launch", "guard", "return") if first or not self._stages_before() else ("return",)
        return [_option(entry(w), w) for w in words]

    def _returning(self) -> bool:
        i = len(self.tokens) - 1
        while i > 0 and (self.token(i) == "," or self.token(i).isidentifier()):
            if self.token(i) == "return":
                return True
            i -= 1
        return False

    def _stages_before(self) -> bool:
        return any(t.group() == "=" for t in self.tokens)

    def _names(self, end: int) -> list[Completion]:
        types, _ = self._known(end)
        return [Completion(n, "name", str(t) if t else "") for n, t in types.items()]

    def _known(self, end: int) -> tuple[dict[str, TensorType | None], list[Stage]]:
        """The types of the names and the stages of the program up to a position; empty if that does not parse."""
        types, stages = partial(self.text[:end] + "}")
        return types, stages

    # ---- in a stage's block ----

    def _block(self, brace: int) -> list[Completion]:
        """The options in a stage's block; `brace` is the index of its `{`."""
        opened, depth = brace - 1, 0
        while opened > 0:
            depth += {")": 1, "(": -1}.get(self.token(opened), 0)
            if depth == 0:
                break
            opened -= 1
        op, start = self.token(opened - 1), max(0, opened - 3)
        family = FAMILIES.get(op)
        if family is None:
            return []
        clause = None  # index of the last clause's word
        nested = next((j for j in self.open if j > brace), len(self.tokens))  # the first bracket open in the block
        for i in range(brace + 1, nested + 1):
            if self.token(i) in family.clauses and not self._is_value(i, clause):
                clause = i
        head = self.tokens[start].start()
        word = self.token(clause) if clause is not None else ""
        if word in _EXPRESSIONS:
            return self._expression(op, family, brace, clause, head)
        if clause is not None and word not in _FLAGS:
            values = len(self.tokens) - 1 - clause
            if values == 0:
                return self._values(op, word, clause, head)
            if word == "store" and values == 1:
                layouts = [v for v in ("nchw", "nhwc") if self.token(-1) not in ("nchw", "nhwc")]
                return [_option(entry(v, "value"), v) for v in layouts] + self._clauses(family, brace)
            if word == "over" and self.token(-1) == ",":
                return self._axes(op, head)
            if word == "scheduler" and self.token(-1) == "(":
                return [Completion(str(n), "value", f"{n} blocks share each tile's K") for n in (2, 3, 4, 6, 8, 16)]
        return self._clauses(family, brace)

    def _is_value(self, i: int, clause: int | None) -> bool:
        """Return True if a token is the value of the last clause, as `of` in `let of = ...`."""
        return clause is not None and i == clause + 1 and self.token(clause) not in _FLAGS

    def _clauses(self, family, brace: int) -> list[Completion]:
        written = {t.group() for t in self.tokens[brace:]} - {"let", "also"}
        return [_option(entry(c, "clause"), c) for c in family.clauses if c not in written]

    def _values(self, op: str, word: str, clause: int, head: int) -> list[Completion]:
        if word == "over":
            return self._axes(op, head)
        if word == "op":
            return [_option(entry(v, "value"), v) for v in _OPS.get(op, ())]
        if word in ("tile", "cluster", "stages", "compute"):
            options = self._configurations(word, self.tokens[clause].start(), head)
            if options:
                return options
        values = ENTRIES["clause", word].values
        auto = () if word in ("op", "window", "to", "layout") else ("auto",)
        return [_option(entry(v, "value", "type", "keyword"), v) for v in (*values, *auto)]

    def _configurations(self, word: str, end: int, head: int) -> list[Completion]:
        """The values of a configuration clause that are legal with the clauses before it, predicted fastest first."""
        types, stage = self._known_with_stage(end, head)
        if stage is None or not hasattr(stage, "config") or stage.type is None or not legal.configured(stage, types):
            return []
        words = [t.group() for t in self.tokens]
        named = [b for a, b in pairwise(words) if a == "arch" and b in ARCHS]
        arch = ARCHS[named[0] if named else DEFAULT]
        problem = legal.problem_of(arch, stage, types)
        base = replace(stage.config, **{word: None})
        if word == "compute":
            return [_option(entry(problem.compute.value, "value", "type"), problem.compute.value)]
        if word == "tile":
            atom = 1024 // problem.compute.bits
            tiles = legal.tiles_for(problem)
            configs = [replace(base, tile=t) for t in [t for t in tiles if t[2] == atom] or tiles]
        elif word == "cluster":
            configs = [replace(base, cluster=(m, n, 1)) for m in (1, 2, 4) for n in (1, 2, 4)]
        else:
            configs = [replace(base, stages=s) for s in range(legal.MIN_STAGES, legal.MAX_STAGES + 1)]
        passing = [(getattr(c, word), full) for c in configs if (full := completed(problem, c)) is not None]
        passing.sort(key=lambda pair: seconds(problem, pair[1]))
        out = []
        for value, full in passing[:16]:
            label = legal.dims(value) if isinstance(value, tuple) else str(value)
            out.append(Completion(label, "value", f"about {seconds(problem, full) * 1e3:.3g} ms by a simple model"))
        return [*out, _option(entry("auto"), "auto")]

    def _known_with_stage(self, end: int, head: int) -> tuple[dict[str, TensorType | None], Stage | None]:
        """The types of the names, and the stage whose block is open (its name is at `head`), None if untyped."""
        types, stages = partial(self.text[:end] + "}}")
        name = next(t.group() for t in self.tokens if t.start() == head)
        return types, next((s for s in stages if s.name == name and s.type is not None), None)

    def _axes(self, op: str, head: int) -> list[Completion]:
        """The axes of x, which `over` may name."""
        x = next((t.group() for t in self.tokens if t.start() > head and t.group() not in (op, "=", "(")), "")
        types, _ = self._known(head)
        t = types.get(x)
        rank = len(t.shape) if t else 5
        names = axes_of(Reduce(name="", x=None), rank) if t else dict.fromkeys("lmnbcdhw", ())
        return [_axis(n, tuple(t.shape[i] for i in p) if t else ()) for n, p in names.items()]

    # ---- expressions ----

    def _expression(self, op: str, family, brace: int, clause: int, head: int) -> list[Completion]:
        word, last = self.token(clause), self.token(-1)
        named = word in ("let", "also")
        if named and len(self.tokens) - 1 - clause < 2:
            return []  # the author types its name and `=`
        end = self.tokens[clause].start()
        types, stage = self._known_with_stage(end, head)
        space = _space(stage, op, types)
        if self.open and self.token(self.open[-1]) == "[" and self.open[-1] > clause:
            used = {self.token(i) for i in range(self.open[-1] + 1, len(self.tokens))}
            names = space.axes if space else _static_axes(op)
            return [_axis(n, space.dims([n]) if space else ()) for n in names if n not in used]
        complete_so_far = last in (")", "]") or (
            re.match(r"[A-Za-z0-9_.]", last) is not None and last not in (word, "=")
        )
        nested = any(i > clause for i in self.open)
        if complete_so_far:
            return [] if nested else self._clauses(family, brace)
        return self._atoms(op, brace, clause, types, stage, space, nested)

    def _atoms(
        self, op, brace, clause, types, stage: Stage | None, space: Space | None, nested: bool
    ) -> list[Completion]:
        """The options for an operand of an expression."""
        out = [_option(entry("acc"), "acc")]
        normalised = op == "normalize" and self.token(clause) != "of"
        if normalised or any(t.group() == "pairs" for t in self.tokens[brace:]):
            out.append(_option(entry("acc2"), "acc2"))
        for i in range(brace, clause):
            if self.token(i) == "let" and self.token(i + 2) == "=":
                out.append(Completion(self.token(i + 1), "name", "a part of this stage"))
        own = {self.token(i + 1) for i in range(brace, len(self.tokens)) if self.token(i) == "also"}
        own |= {stage.name} if stage else set()
        for name, t in types.items():
            if t is None or name in own:
                continue
            fits = [f"{name}{f}" for f in space.fitting(t)] if space and t.shape else [name] if not t.shape else []
            out += [Completion(label, "name", str(t)) for label in fits]
        for f in EVERY.values():
            of_gemm = f.name in INDEXED or f.name in REDUCTIONS
            if f.infix or (of_gemm and op != "gemm"):
                continue
            if f.name in REDUCTIONS and (
                nested or self.token(clause) in ("let", "of") or self.token(-1) not in ("=", "epilogue")
            ):
                continue
            out.append(Completion(f"{f.name}(", "function", f"{f.signature}: {f.formula}"))
        return out


def _axis(name: str, size: tuple[int, ...]) -> Completion:
    e = entry(name, "axis")
    return Completion(name, "axis", (f"{legal.dims(size)}: " if size else "") + (e.doc if e else ""))


def _written(name: str, stages: list[Stage]) -> bool:
    return any(name == s.name or any(name == a.name for a in s.also) for s in stages)


def _space(stage: Stage | None, op: str, types: dict[str, TensorType | None]) -> Space | None:
    """The index space of the stage's expressions; None if the stage is not typed."""
    if stage is None or stage.type is None:
        return None
    if isinstance(stage, Reduce) and not stage.keepdim:
        x = types.get(stage.x.name)
        if x is None:
            return None
        axes = axes_of(stage, len(x.shape))
        at = {i for n in stage.over for i in axes.get(n, ())}
        left = [i for i in range(len(x.shape)) if i not in at]
        names = {n: tuple(left.index(i) for i in p) for n, p in axes.items() if not set(p) & at}
        return Space(stage.type.shape, names)
    return Space(stage.type.shape, axes_of(stage, len(stage.type.shape)), product=op == "gemm")


def _static_axes(op: str) -> tuple[str, ...]:
    if "gemm" in op:
        return ("l", "m", "n")
    return (
        ("b", "c", "d", "h", "w") if op.startswith("conv") or op == "pool" else ("l", "m", "n", "b", "c", "d", "h", "w")
    )
