"""Read an inequality that a model wrote, for example `stages * (tile_m + tile_n) * tile_k * 2 <= shared_block`.

A text is parsed to a syntax tree, each node of which must be on the list below; Python evaluates nothing. Names are the
parameters of a template and the limits of the hardware. The text and every value are bounded, so a hostile text costs
as little as any other.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Value = int | float | str | bool
Evaluated = Callable[[Mapping[str, Value]], Value]

MOST_TEXT = 300  # characters
MOST_NODES = 100
LARGEST = 1e15  # magnitude of any value
_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_COMPARED = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[int, int, Callable]] = {  # name -> least and most arguments, and what it does
    "min": (1, 8, min), "max": (1, 8, max), "abs": (1, 1, abs), "ceil_div": (2, 2, lambda a, b: -(-a // b)),
}  # fmt: skip
ALLOWED = "+ - * / // % < <= > >= == != and or not, min, max, abs and ceil_div"


class ExpressionError(ValueError):
    """A text that is no expression, or one that has no value; the message says why."""


@dataclass(frozen=True)
class Expression:
    """`names`: what it reads."""

    text: str
    names: frozenset[str]
    _evaluated: Evaluated

    def value(self, known: Mapping[str, Value]) -> Value:
        """Its value. Raises ExpressionError for a division by zero, a value beyond LARGEST and a mix of types."""
        return self._evaluated(known)

    def holds(self, known: Mapping[str, Value]) -> bool:
        """Whether it is true; an inequality without a value does not hold."""
        try:
            return bool(self.value(known))
        except ExpressionError:
            return False


def read(text: str) -> Expression:
    """The expression that a text holds. Raises ExpressionError."""
    if len(text) > MOST_TEXT:
        raise ExpressionError(f"it has {len(text)} characters; at most {MOST_TEXT} are read")
    python = text.replace("&&", " and ").replace("||", " or ").strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(python, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"`{text[:80]}` is no expression of {ALLOWED}") from None
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise ExpressionError(f"`{text[:80]}` has more than {MOST_NODES} parts")
    names: set[str] = set()
    evaluated = _compiled(tree.body, names)
    return Expression(text.strip(), frozenset(names), evaluated)


def _compiled(node: ast.expr, names: set[str]) -> Evaluated:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            bounded = _bounded(value)
            return lambda known: bounded
        case ast.Name(id=name):
            names.add(name)
            return lambda known: _of(known, name)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            one, of = _UNARY[type(op)], _compiled(operand, names)
            return lambda known: _checked(one, of(known))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            both, a, b = _BINARY[type(op)], _compiled(left, names), _compiled(right, names)
            return lambda known: _checked(both, _number(a(known)), _number(b(known)))
        case ast.BoolOp(op=op, values=values):
            parts, every = [_compiled(value, names) for value in values], isinstance(op, ast.And)
            return lambda known: (all if every else any)(bool(part(known)) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARED for op in ops):
            terms = [_compiled(term, names) for term in (left, *others)]
            kinds = [_COMPARED[type(op)] for op in ops]
            return lambda known: _chained(kinds, [term(known) for term in terms])
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            least, most, function = FUNCTIONS[name]
            if not least <= len(args) <= most:
                raise ExpressionError(f"`{name}` takes {least} to {most} values, not {len(args)}")
            parts = [_compiled(arg, names) for arg in args]
            return lambda known: _checked(function, *(_number(part(known)) for part in parts))
    raise ExpressionError(f"`{ast.unparse(node)[:80]}` is not allowed; an expression has {ALLOWED}")


def _of(known: Mapping[str, Value], name: str) -> Value:
    try:
        return known[name]
    except KeyError:
        raise ExpressionError(f"`{name}` is neither a parameter nor a limit") from None


def _number(value: Value) -> Value:
    if isinstance(value, str):
        raise ExpressionError(f'"{value[:40]}" is a word, and arithmetic takes numbers')
    return value


def _checked(function: Callable, *values: Value) -> Value:
    try:
        return _bounded(function(*values))
    except (ZeroDivisionError, OverflowError):
        raise ExpressionError("it divides by zero or overflows") from None
    except TypeError:
        raise ExpressionError("it mixes words and numbers") from None


def _chained(kinds: list[Callable], values: list[Value]) -> bool:
    try:
        return all(kind(a, b) for kind, a, b in zip(kinds, values, values[1:], strict=False))
    except TypeError:
        raise ExpressionError("it compares words with numbers") from None


def _bounded(value: Value) -> Value:
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        raise ExpressionError(f"a value is beyond {LARGEST:g}")
    return value


__all__ = ["ALLOWED", "LARGEST", "MOST_TEXT", "Expression", "ExpressionError", "Value", "read"]
