"""The syntax tree: words and numbers as written, with their spans. What they mean is the checker's to say."""

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


# ---- expressions: `depth` is the height of the tree ----


@dataclass(frozen=True)
class NumberNode:
    value: float
    span: Span
    depth: int = 1


@dataclass(frozen=True)
class RefNode:
    """A bare name (acc or a scalar, axes None) or a tensor at axes."""

    name: Word
    axes: tuple[Word, ...] | None
    span: Span
    depth: int = 1


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
    """Brackets, kept so that `-(1.0)` stays an operation and `-1.0` a number."""

    inner: ExprNode
    span: Span
    depth: int


ExprNode = NumberNode | RefNode | CallNode | ParenNode


# ---- stages ----


@dataclass(frozen=True)
class ClauseNode:
    """`keyword value`. `value`: Word; ints (dims and counts); (Word, int | None) of a scheduler; Words (store, over);
    NumberNode (eps); ExprNode (epilogue, of); PartNode (let, also); or None of a flag."""

    keyword: Word
    value: Word | tuple | ExprNode | PartNode | None
    span: Span  # of the value; of the keyword where there is none


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
    """`items` in the order written: arch, launch, guard, stages and returns; their order is judged by the checker."""

    name: Word
    params: tuple[ParamNode, ...]
    results: tuple[TypeNode, ...]
    items: tuple[ArchNode | LaunchNode | GuardNode | StageNode | ReturnNode, ...]
    span: Span
    end: Span  # the closing brace


def head_of(item: object) -> tuple[str, Word] | None:
    """The keyword and the value of a line before the stages (arch, launch, guard); None of any other item."""
    if isinstance(item, ArchNode):
        return "arch", item.name
    if isinstance(item, LaunchNode):
        return "launch", item.how
    return ("guard", item.to) if isinstance(item, GuardNode) else None
