"""The small language of answers: arithmetic, comparisons and calls of the functions in playground.learn.facts.

    ridge("h200", "f16")            binds(layer, "tf32")            1.5 * limit(layer, "f16") if a > b else 0

An expression is read by Python's parser and walked here; nothing of it is ever run as Python. A teacher's text is
untrusted, so its size, the size of its numbers and its functions are bounded.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

LONGEST = 400  # characters
LISTED = 30  # names that a message lists
WHOLE = 2**63  # whole numbers beyond it go on as floats, which overflow instead of growing
_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def listing(names: Iterable[str]) -> str:
    """Names for a message, the first ones of many: a text may have thousands, and a mistake in each line."""
    some = list(islice(names, LISTED + 1))
    return ", ".join(some[:LISTED]) + (", .." if len(some) > LISTED else "")


class ExpressionError(ValueError):
    """An expression that cannot be read or computed. The message is one sentence for the lesson's author."""


@dataclass
class Scope:
    """The names that expressions of a lesson may use. `values`: computed on first use and then kept. `left`: calls of
    functions that may still be made while a text is read; None: any number. `cost(function, arguments)`: as how many
    calls a call counts."""

    functions: Mapping[str, Callable[..., Any]]
    objects: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Expression] = field(default_factory=dict)
    left: int | None = None
    cost: Callable[[str, Sequence[Any]], int] = lambda name, values: 1
    computing: set[str] = field(default_factory=set)  # values that wait for their own names

    def __contains__(self, name: str) -> bool:
        return name in self.objects or name in self.values

    def spend(self, calls: int) -> None:
        """Count calls of functions. Raises ExpressionError when a text that is read has made too many."""
        if self.left is not None:
            self.left -= calls
            if self.left < 0:
                raise ExpressionError("The lesson computes too many numbers. Make two lessons of it.")

    def get(self, name: str) -> Any:
        if name not in self.objects:
            if name not in self.values:
                known = listing(chain(self.objects, (v for v in self.values if v not in self.objects))) or "none"
                raise ExpressionError(f"There is no value {name!r}; the lesson's values are: {known}.")
            if name in self.computing:
                raise ExpressionError(f"The value {name!r} is computed from itself.")
            self.computing.add(name)
            try:
                self.objects[name] = self.values[name].value()
            finally:
                self.computing.discard(name)
        return self.objects[name]


@dataclass(frozen=True)
class Expression:
    """An expression of a lesson, computed each time that `value` is called."""

    text: str
    scope: Scope = field(repr=False, compare=False)
    tree: ast.expr = field(repr=False, compare=False)

    def value(self) -> Any:
        """Raises ExpressionError, also for a number that is not finite."""
        try:
            value = _value(self.tree, self.scope)
        except ZeroDivisionError:
            raise ExpressionError(f"`{self.text}` divides by zero.") from None
        except OverflowError:
            raise ExpressionError(f"`{self.text}` is too large a number.") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError(f"`{self.text}` is no finite number.")
        return value

    def number(self) -> float:
        """The value as a number. Raises ExpressionError for another kind of value."""
        value = self.value()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ExpressionError(f"`{self.text}` is {value!r}; a number is needed here.")
        return value


def read(text: str, scope: Scope) -> Expression:
    """Raises ExpressionError for a text that is no expression of this language."""
    text = text.strip()
    if len(text) > LONGEST:
        raise ExpressionError(f"An expression has at most {LONGEST} characters; this one has {len(text)}.")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f'`{text}` is no expression. Write for example `limit(layer, "f16")`.') from None
    return Expression(text, scope, tree)


def _numbers(node: ast.expr, *values: Any) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ExpressionError(f"`{ast.unparse(node)}` calculates with {value!r}, which is no number.")


def _whole(value: int) -> float:
    """Raises OverflowError for a number beyond a float."""
    return value if abs(value) <= WHOLE else float(value)


def _value(node: ast.expr, scope: Scope) -> Any:
    match node:
        case ast.Constant(value=bool() | float() | str() as value):
            return value
        case ast.Constant(value=int() as value):
            return _whole(value)
        case ast.Name(id=name):
            return scope.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = _value(inner, scope)
            _numbers(node, value)
            return -value
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _value(inner, scope)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
            a, b = _value(left, scope), _value(right, scope)
            _numbers(node, a, b)
            if isinstance(op, ast.Pow):  # floats overflow instead of growing
                a = float(a)
            result = _BINARY[type(op)](a, b)
            _numbers(node, result)
            if not math.isfinite(result):
                raise OverflowError
            return _whole(result) if isinstance(result, int) else result
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            a, b = _value(left, scope), _value(right, scope)
            if type(op) not in (ast.Eq, ast.NotEq):
                _numbers(node, a, b)
            return _COMPARE[type(op)](a, b)
        case ast.BoolOp(op=op, values=parts):
            values = (bool(_value(part, scope)) for part in parts)
            return all(values) if isinstance(op, ast.And) else any(values)
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, scope) else other, scope)
        case ast.List(elts=parts):
            return [_value(part, scope) for part in parts]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=options):
            return _call(node, name, arguments, options, scope)
    raise ExpressionError(
        f"`{ast.unparse(node)}` is not allowed; use numbers, texts in quotes, + - * / **, comparisons, `a if b else c` "
        "and the functions of playground/lessons/README.md."
    )


def _call(node: ast.expr, name: str, arguments: list[ast.expr], options: list[ast.keyword], scope: Scope) -> Any:
    if name not in scope.functions:
        raise ExpressionError(f"There is no function {name!r}; there are {', '.join(sorted(scope.functions))}.")
    values = [_value(argument, scope) for argument in arguments]
    if any(keyword.arg is None for keyword in options):
        raise ExpressionError(f"`{ast.unparse(node)}`: write each argument by itself.")
    keywords = {str(keyword.arg): _value(keyword.value, scope) for keyword in options}
    scope.spend(scope.cost(name, [*values, *keywords.values()]))
    try:
        return scope.functions[name](*values, **keywords)
    except TypeError:
        doc = (scope.functions[name].__doc__ or "").split("\n")[0]
        raise ExpressionError(f"`{ast.unparse(node)}` has other arguments than {name} takes: {doc}") from None
    except ExpressionError:
        raise
    except (ValueError, KeyError) as e:
        words = str(e.args[0]) if e.args else "it cannot be computed"
        raise ExpressionError(f"`{ast.unparse(node)}`: {words}") from None
