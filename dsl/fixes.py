"""The edits that end a mistake, as data beside the words of a help.

The module that reports a mistake knows the way out, so it names it twice: as a sentence for a person and as a Fix for
the editor. A Fix is relative to the span of its diagnostic, the mark. dsl.editor.repair makes the edited texts and
checks each of them before it offers one, so a Fix may fail; no module reads a fix out of a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

Clause = tuple[str, str]  # keyword and value; the value is "" for a flag such as prepack


@dataclass(frozen=True)
class Rewrite:
    """Put `text` in place of the marked text. `title` describes it; by default it is the text."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Respell:
    """Put the word `text` in place of the misspelt name at the mark; what follows the name, as in `bais[n]`, stays."""

    text: str


@dataclass(frozen=True)
class DeleteToken:
    """Leave out the marked word or sign, which the parser does not expect."""


@dataclass(frozen=True)
class LeaveOut:
    """Leave out what the mark names: a clause, a stage, a parameter, or a line such as `launch graph`."""


@dataclass(frozen=True)
class LeaveClauses:
    """Leave out these clauses of the marked stage, or of the stage with the name `stage`."""

    words: tuple[str, ...]
    stage: str | None = None


@dataclass(frozen=True)
class SetClauses:
    """Set clauses of the marked stage, or of the stage with the name `stage`; a clause that it lacks is added."""

    clauses: tuple[Clause, ...]
    stage: str | None = None

    @property
    def text(self) -> str:
        return written(self.clauses)


@dataclass(frozen=True)
class ChangeStage:
    """Write the stage `word` with these clauses in place of the marked stage keyword, without the clauses `left`."""

    word: str
    clauses: tuple[Clause, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class TransformFirst:
    """Read operand `name` of the marked stage through a transform above it with these clauses."""

    name: str
    clauses: tuple[Clause, ...]

    @property
    def result(self) -> str:
        return f"{self.name}_"

    @property
    def line(self) -> str:
        return f"{self.result} = transform({self.name}) {{ {written(self.clauses)} }}"


@dataclass(frozen=True)
class InTwo:
    """Write the marked clause of a transform, and those after it, in a second transform below it."""


@dataclass(frozen=True)
class PadDepth:
    """Pad K of both operands of the marked product to `depth` elements, by transforms above it."""

    depth: int


@dataclass(frozen=True)
class DeclareResult:
    """Write `type` after -> for the marked name in `return`."""

    type: str


@dataclass(frozen=True)
class ReturnView:
    """Return the marked result in the shape `view`, by a transform below its stage."""

    view: str


@dataclass(frozen=True)
class DeclareParameter:
    """Write `type` as the type of the parameter `name`."""

    name: str
    type: str


@dataclass(frozen=True)
class SetArch:
    """Write `arch name` in the program."""

    name: str


@dataclass(frozen=True)
class MoveUp:
    """Move the marked `arch`, `launch` or `guard` line before the stages."""


@dataclass(frozen=True)
class ReturnLast:
    """Return the last stage."""


Fix = (
    Rewrite
    | Respell
    | DeleteToken
    | LeaveOut
    | LeaveClauses
    | SetClauses
    | ChangeStage
    | TransformFirst
    | InTwo
    | PadDepth
    | DeclareResult
    | ReturnView
    | DeclareParameter
    | SetArch
    | MoveUp
    | ReturnLast
)


@dataclass(frozen=True)
class Help:
    """The way out of a mistake: a sentence, and the edits that it names, the nearest first."""

    text: str
    fixes: tuple[Fix, ...]


def written(clauses: tuple[Clause, ...]) -> str:
    """Clauses as a program has them: `op sum  over n`."""
    return "  ".join(f"{word} {value}".strip() for word, value in clauses)


# ---- helps whose sentence is the same wherever the mistake is ----


def help_of(text: str, *fixes: Fix) -> Help:
    return Help(text, fixes)


def did_you_mean(word: str | None) -> Help | None:
    """The help for a misspelt word; None if no known word is near."""
    return help_of(f"did you mean `{word}`?", Respell(word)) if word else None


def write_clause(word: str, value: str) -> Help:
    return help_of(f"{word} {value}".strip(), SetClauses(((word, value),)))


def leave_clause(word: str) -> Help:
    return help_of(f"leave {word} out", LeaveClauses((word,)))


def transform_first(name: str, *clauses: Clause) -> Help:
    fix = TransformFirst(name, clauses)
    return help_of(f"{fix.line} first", fix)


def or_else(*ways: Help | str | None) -> Help | None:
    """One help for several ways out: `tile 64x64x64, or stages 2`; None if there are none."""
    ways = tuple(w if isinstance(w, Help) else help_of(w) for w in ways if w is not None)
    return Help(", or ".join(w.text for w in ways), tuple(f for w in ways for f in w.fixes)) if ways else None
