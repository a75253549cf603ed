"""The syntax tree: words and numbers as written, with their spans. The checker decides what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import Span


@dataclass(frozen=True)
class Word:
    """A name, keyword or value as written."""

    text: str
    span: Span


@dataclass(frozen=True)
class IntNode:
    value: int
    span: Span


@dataclass(frozen=True)
class TypeNode:
    dtype: Word
    shape: tuple[IntNode, ...]
    span: Span


@dataclass(frozen=True)
class ParamNode:
    name: Word
    type: TypeNode


@dataclass(frozen=True)
class OperandNode:
    name: Word
    transposed: bool
    span: Span


# ---- expressions; `depth` is the height of the tree ----


@dataclass(frozen=True)
class NumberNode:
    value: float
    span: Span
    depth: int = 1


@dataclass(frozen=True)
class RefNode:
    """A name alone (acc or a scalar; axes is None) or a tensor at axes; `starts`: the number added to each axis, None
    where none is written."""

    name: Word
    axes: tuple[Word, ...] | None
    span: Span
    depth: int = 1
    starts: tuple[IntNode | None, ...] = ()


@dataclass(frozen=True)
class CallNode:
    """A function by name, or an operator as add, sub, mul, div, neg. `keywords` pairs a name with an argument."""

    fn: Word
    args: tuple[ExprNode, ...]
    keywords: tuple[tuple[Word, ExprNode], ...]
    span: Span
    depth: int


@dataclass(frozen=True)
class ParenNode:
    """Brackets. They distinguish the operation `-(1.0)` from the number `-1.0`."""

    inner: ExprNode
    span: Span
    depth: int


ExprNode = NumberNode | RefNode | CallNode | ParenNode


# ---- stages ----


@dataclass(frozen=True)
class ClauseNode:
    """`keyword value`.

    The type of `value` depends on the clause: a Word; ints (dims and counts); (Word, int | None) for a scheduler;
    Words (store, over); NumberNode (eps); ExprNode (epilogue, of); PartNode (let, also); None for a flag.
    """

    keyword: Word
    value: Word | tuple | ExprNode | PartNode | None
    span: Span  # of the value, or of the keyword of a flag


@dataclass(frozen=True)
class PartNode:
    """`let name = expr` or `also name = expr`."""

    name: Word
    expr: ExprNode


@dataclass(frozen=True)
class StageNode:
    name: Word
    op: Word
    operands: tuple[OperandNode, ...]
    clauses: tuple[ClauseNode, ...]
    span: Span  # `name = op(...)`, without the block


@dataclass(frozen=True)
class ArchNode:
    name: Word


@dataclass(frozen=True)
class LaunchNode:
    how: Word


@dataclass(frozen=True)
class GuardNode:
    to: Word


@dataclass(frozen=True)
class ReturnNode:
    names: tuple[Word, ...]
    span: Span


@dataclass(frozen=True)
class ProgramNode:
    """A program. `items` has arch, launch, guard, stages and returns as written; the checker checks their order."""

    name: Word
    params: tuple[ParamNode, ...]
    results: tuple[TypeNode, ...]
    items: tuple[ArchNode | LaunchNode | GuardNode | StageNode | ReturnNode, ...]
    span: Span
    end: Span  # the closing brace


def head_of(item: object) -> tuple[str, Word] | None:
    """The keyword and the value of an arch, launch or guard line; None for any other item."""
    if isinstance(item, ArchNode):
        return "arch", item.name
    if isinstance(item, LaunchNode):
        return "launch", item.how
    return ("guard", item.to) if isinstance(item, GuardNode) else None
