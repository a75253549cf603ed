"""The state that the checks of all stages share: names in scope, reported errors, and the reading of clauses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dsl import arch as arches
from dsl.check.shapes import MAX_ELEMENTS
from dsl.diagnostics import Diagnostic, closest, listing
from dsl.fixes import Help, LeaveClauses, Rewrite, did_you_mean, help_of, write_clause
from dsl.ir import NCHW, NHWC, DType, Operand, Span, TensorType
from dsl.tree import ClauseNode, StageNode, TypeNode, Word

LAYOUTS = (NCHW, NHWC)
MAX_RANK = 6
MAX_COMPARED = 2000  # comparisons of names in one check, 10 us each
MAX_DIM = 2**31 - 1  # CUTLASS counts problem sizes in 32-bit integers

Clauses = dict[str, ClauseNode]
Typed = tuple[Operand, TensorType | None]


@dataclass
class Context:
    """The state of one check. `types`: the type of every name so far, None if it is unknown after an error."""

    report: Callable[[Diagnostic], None]
    arch: arches.Arch | None = None  # None after an error
    types: dict[str, TensorType | None] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)  # names that stages below write
    used: set[str] = field(default_factory=set)
    reads: dict[str, set[str]] = field(default_factory=dict)  # stage -> the names it reads
    writer: dict[str, str] = field(default_factory=dict)  # result -> the stage that writes it
    prepacked: set[str] = field(default_factory=set)
    compared: int = 0  # comparisons so far: misspelt names x names in scope

    def error(
        self, code: str, message: str, span: Span, help: Help | str | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self.report(Diagnostic.of(code, message, span, help, notes))

    def closest(self, word: str, known: Collection[str]) -> str | None:
        """The name in scope nearest to a misspelt one; None once MAX_COMPARED comparisons are used up.

        Without this limit a program with hundreds of unknown names among hundreds of names takes a second.
        """
        self.compared += len(known)
        return closest(word, known) if self.compared <= MAX_COMPARED else None

    # ---- types ----

    def dtype(self, word: Word) -> DType | None:
        """The element type with this name; None, with an error reported, if there is none."""
        for t in arches.COVERED:
            if word.text == t.value:
                return t
        covered = listing([t.value for t in arches.COVERED])
        if word.text == "tf32":
            message = "tf32 is a precision of the tensor cores, not a type in memory"
            self.error("E106", message, word.span, help_of("write f32", Rewrite("f32")))
        elif word.text in arches.LATER:
            self.error("E106", f"{word.text} is not covered; covered are {covered}", word.span)
        else:
            near = arches.ALIASES.get(word.text) or closest(word.text, [t.value for t in arches.COVERED])
            message = f"`{word.text}` is not an element type; types are {covered}"
            self.error("E106", message, word.span, did_you_mean(near))
        return None

    def type(self, node: TypeNode) -> TensorType | None:
        """The type of a parameter or result as written."""
        dtype = self.dtype(node.dtype)
        ok = True
        for d in node.shape:
            if not 1 <= d.value <= MAX_DIM:
                self.error("E113", f"a dimension of {d.value:,}; each is from 1 to {MAX_DIM:,}", d.span)
                ok = False
        if len(node.shape) > MAX_RANK:
            self.error("E113", f"{len(node.shape)} dimensions; at most {MAX_RANK}", node.span)
            ok = False
        if not ok or dtype is None:
            return None
        return self.sized(TensorType(dtype, tuple(d.value for d in node.shape)), node.span)

    def sized(self, t: TensorType, span: Span) -> TensorType | None:
        """`t`; None, with an error reported, if it is too large."""
        if t.elements > MAX_ELEMENTS or any(d > MAX_DIM for d in t.shape):
            self.error("E113", f"{t.elements:,} elements; at most {MAX_ELEMENTS:,}", span)
            return None
        return t

    # ---- clauses ----

    def word(self, clauses: Clauses, name: str, choices: tuple[str, ...], code: str = "E120") -> str | None:
        """The value of a clause with a fixed set of words; None if it is absent, auto or wrong."""
        c = clauses.get(name)
        if c is None or c.value.text == "auto":
            return None
        if c.value.text in choices:
            return c.value.text
        near = closest(c.value.text, choices)
        message = f"`{c.value.text}` is not a value of {name}; those are {listing(choices)}"
        self.error(code, message, c.span, did_you_mean(near))
        return None

    def sizes(self, clauses: Clauses, name: str, count: int | None, least: int, owner: str) -> tuple[int, ...] | None:
        """The sizes of a clause such as `stride 2x2`: `count` of them (None: any number), each at least `least`.

        None if the clause is absent, auto or wrong. `owner` names in messages what has `count` axes.
        """
        c = clauses.get(name)
        if c is None:
            return None
        if isinstance(c.value, Word):
            if c.value.text != "auto":
                self.error("E112", f"`{c.value.text}` is not a value of {name}", c.span, "sizes, such as 1x1")
            return None
        if count is not None and len(c.value) != count:
            fixed = "x".join(map(str, (c.value * count)[:count]))
            message = f"{name} has {len(c.value)} size{'s'[: len(c.value) != 1]}; {owner} has {count}"
            self.error("E112", message, c.span, write_clause(name, fixed))
        value = c.value if count is None else (c.value * count)[:count]  # the checks go on with the sizes of the help
        for v in value:
            if not least <= v <= MAX_DIM:
                self.error("E113", f"{name} {v:,}; each size is from {least} to {MAX_DIM:,}", c.span)
                return None
        return value

    def count(self, clauses: Clauses, name: str) -> int | None:
        """The number of a clause such as `groups 8`, at least 1; None if it is absent, auto or wrong."""
        c = clauses.get(name)
        if c is None:
            return None
        if isinstance(c.value, Word):
            if c.value.text != "auto":
                self.error("E112", f"`{c.value.text}` is not a value of {name}", c.span, write_clause(name, "1"))
            return None
        if not 1 <= c.value[0] <= MAX_DIM:
            self.error("E113", f"{name} {c.value[0]:,}; it is from 1 to {MAX_DIM:,}", c.span)
            return None
        return c.value[0]

    def store(self, clauses: Clauses, rank: int | None) -> tuple[DType | None, str | None, bool]:
        """`store f32 nchw`: the element type, the layout, and False if the clause has an error."""
        c = clauses.get("store")
        if c is None:
            return None, None, True
        dtype = layout = None
        ok = True
        for w in c.value:
            if w.text == "auto":
                continue
            if w.text in LAYOUTS:
                if layout is not None:
                    self.error("E005", "store names two layouts", w.span, "leave one out")
                    ok = False
                layout = w.text
                ok &= self.layout_fits(w, rank)
            elif dtype is not None:
                self.error("E005", "store names two element types", w.span, "leave one out")
                ok = False
            else:
                dtype = self.dtype(w)
                ok &= dtype is not None
        return dtype, layout, ok

    def layout_fits(self, word: Word, rank: int | None) -> bool:
        """Return True if a tensor of this rank can have the layout; nhwc needs 3 to 5 axes. Reports the error."""
        if word.text == NHWC and rank is not None and not 3 <= rank <= 5:
            message = f"nhwc is for 3 to 5 axes, with channels second; here there {'is' if rank == 1 else 'are'} {rank}"
            self.error("E115", message, word.span, help_of("leave the layout out", LeaveClauses(("layout",))))
            return False
        return True


def spans(node: StageNode) -> tuple[tuple[str, Span], ...]:
    """The span of each clause's value; of the first one if the clause is repeated."""
    places: dict[str, Span] = {}
    for c in node.clauses:
        places.setdefault(c.keyword.text, c.span)
    return tuple(places.items())


def dims(values) -> str:
    return "x".join(map(str, values))
