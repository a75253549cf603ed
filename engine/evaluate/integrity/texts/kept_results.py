"""Detect texts that store results and return them again instead of computing, by the syntax tree of the entry.

Storing functions, libraries or workspaces is honest and common, so the rules look at what the entry *returns* and at
keys that are a tensor's address or value. The judge's fingerprints catch what they miss.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from engine.evaluate.integrity.texts.python_source import PythonSource

_VALUE_KEYS = {"data_ptr", "id", "hash", "_version", "tobytes", "tolist", "item", "sum", "mean", "untyped_storage"}
_ALIGNMENT = 4096  # bytes: the rest of an address by no more says how it is aligned, not which tensor it is
_VIEWS = ("clone", "detach", "get", "view")


def find(source: PythonSource, entries: Iterable[str]) -> Iterator[tuple[str, ast.AST, str]]:
    """(code, node, observation) of every place that stores results; `entries`: functions that the harness calls."""
    for name in entries:
        entry = source.functions.get(name)
        if entry is None:
            continue
        for called in [entry, *_called_with_inputs(source, entry)]:
            for d in called.decorator_list:
                decorator = source.dotted(d.func if isinstance(d, ast.Call) else d)
                if decorator in ("functools.lru_cache", "functools.cache"):
                    yield "memoized", called, f"@{decorator} on {called.name}, which takes the inputs"
        for node in ast.walk(entry):
            if isinstance(node, ast.If) and (value := _lone_return(source, node)):
                yield "memoized", node, f"returns {value} without computing"
            elif isinstance(node, ast.Assign):
                for t in node.targets:
                    if isinstance(t, ast.Subscript) and (key := _value_key(t.slice, entry)):
                        yield "memoized", node, f"keeps results under {key}"


def _called_with_inputs(source: PythonSource, entry: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    arguments = {a.arg for a in entry.args.args} - {"self"}
    for node in ast.walk(entry):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            passed = {a.id for a in node.args if isinstance(a, ast.Name)}
            if called in source.functions and passed & arguments:
                yield source.functions[called]


def _lone_return(source: PythonSource, node: ast.If) -> str:
    """What a branch returns, without computing, from a place that outlives the call; or ""."""
    last = node.body[-1]
    if _nothing_to_do(node.test):
        return ""
    busy = any(isinstance(n, ast.Call) for s in node.body[:-1] for n in ast.walk(s))
    if busy or not isinstance(last, ast.Return) or last.value is None:
        return ""
    value = last.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _VIEWS:
        value = value.func.value
    root = value
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name):
        return ""
    if _looped_over_what_lasts(source, node, root.id):
        return ast.unparse(value)
    if value is root:
        return ast.unparse(value) if value.id in _globals(source) else ""
    lasts = root.id == "self" or root.id not in _locals(source, node)
    return ast.unparse(value) if lasts else ""


def _nothing_to_do(test: ast.AST) -> bool:
    """Return True for `x.numel() == 0` and the like: an empty result holds no values."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        size = test.operand
        if not isinstance(size, ast.Call):
            return False
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        size, zero = test.left, test.comparators[0]
        if not (isinstance(zero, ast.Constant) and zero.value == 0):
            return False
    else:
        return False
    if isinstance(size, ast.Subscript):
        return isinstance(size.value, ast.Attribute) and size.value.attr == "shape"
    return isinstance(size, ast.Call) and isinstance(size.func, ast.Attribute) and size.func.attr in ("numel", "size")


def _looped_over_what_lasts(source: PythonSource, node: ast.AST, name: str) -> bool:
    """Return True if a loop around the branch takes `name` from self or a global: a search of stored (key, result)
    pairs."""
    function = source.functions.get(next(iter(source.within(node)), ""))
    for loop in ast.walk(function) if function else ():
        if isinstance(loop, ast.For) and any(n is node for n in ast.walk(loop)):
            targets = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            among = {n.id for n in ast.walk(loop.iter) if isinstance(n, ast.Name)}
            if name in targets and among & ({"self"} | _globals(source)):
                return True
    return False


def _globals(source: PythonSource) -> set[str]:
    assigned = (t for n in source.tree.body if isinstance(n, ast.Assign) for t in n.targets)
    return {t.id for t in assigned if isinstance(t, ast.Name)}


def _locals(source: PythonSource, node: ast.AST) -> set[str]:
    function = source.functions.get(next(iter(source.within(node)), ""))
    if function is None:
        return set()
    names = {a.arg for a in function.args.args}
    for n in ast.walk(function):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            names.add(n.id)
    return names - {n for g in ast.walk(function) if isinstance(g, ast.Global) for n in g.names}


def _value_key(key: ast.AST, entry: ast.FunctionDef, depth: int = 0) -> str:
    """The part of a key that is a tensor's address or value, or ""."""
    for n in _beside_alignments(key):
        if isinstance(n, ast.Call):
            called = n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
            of_a_function = called == "id" and n.args and not _reached(entry) & _names_in(n.args[0])
            if called in _VALUE_KEYS and not of_a_function:
                return ast.unparse(n)[:60]
        elif isinstance(n, ast.Attribute) and n.attr == "_version":
            return ast.unparse(n)[:60]
        elif isinstance(n, ast.Name) and depth < 2:
            for a in ast.walk(entry):
                named = isinstance(a, ast.Assign) and any(isinstance(t, ast.Name) and t.id == n.id for t in a.targets)
                if named and a.value is not key and (inner := _value_key(a.value, entry, depth + 1)):
                    return inner
    return ""


def _beside_alignments(key: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a key, but what is below `address % 16` and `address & 15`."""
    rest = [key]
    while rest:
        node = rest.pop()
        small = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.BitAnd))
        by = node.right.value if small and isinstance(node.right, ast.Constant) else None
        if isinstance(by, int) and 0 < by <= _ALIGNMENT:
            continue
        yield node
        rest += ast.iter_child_nodes(node)


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _reached(entry: ast.FunctionDef) -> set[str]:
    """The names of a function that its arguments reach. Others hold what was there before the call."""
    arguments = entry.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    pairs = []
    for n in ast.walk(entry):
        if isinstance(n, ast.Assign):
            pairs += [(target, n.value) for target in n.targets]
        elif isinstance(n, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and n.value is not None:
            pairs.append((n.target, n.value))
        elif isinstance(n, (ast.For, ast.comprehension)):
            pairs.append((n.target, n.iter))
        elif isinstance(n, ast.withitem) and n.optional_vars is not None:
            pairs.append((n.optional_vars, n.context_expr))
    more = True
    while more:
        more = False
        for target, value in pairs:
            if _names_in(value) & names and not _names_in(target) <= names:
                names |= _names_in(target)
                more = True
    return names
