"""Whether the threads and programs that a text starts end before the call returns, by the form of the text.

A pool in a `with` or an ExitStack, a pool that its function shuts down, threads that are joined by the function that
starts them or beside a call of it, a program that is waited for. Nothing relies on it alone: the run counts those that
live on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from engine.evaluate.integrity.texts.innocent import Innocent, short_name
from engine.evaluate.integrity.texts.python_source import PythonSource, constant

POOLS = {
    "concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool", "multiprocessing.dummy.Pool",
}  # fmt: skip
WAITS = {"concurrent.futures.wait", "concurrent.futures.as_completed"}  # these start nothing
SHORTEST = 1.0  # seconds that a join waits, if it does not wait for ever


class Joined:
    """Asked of calls that start threads or programs."""

    def __init__(self, source: PythonSource, innocent: Innocent):
        self.source, self.innocent = source, innocent

    def ends(self, node: ast.Call, name: str) -> bool:
        """`name`: the dotted name of what is called."""
        around = self.source.parent.get(node)
        if name == "subprocess.Popen":
            if isinstance(around, ast.Assign):
                return short_name(around.targets[0]) in self.innocent.waited_for - {""}
            return isinstance(around, ast.withitem) and around.context_expr is node
        function = self._function(node)
        if name in POOLS:
            return self._entered(node, around) or (function is not None and self._shut(function, around))
        return name == "threading.Thread" and function is not None and any(map(_joins, self._beside(function)))

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        within = self.source.within(node)
        return self.source.functions.get(within[0]) if within else None

    @staticmethod
    def _entered(node: ast.Call, around: ast.AST | None) -> bool:
        if isinstance(around, ast.withitem):
            return around.context_expr is node
        called = around.func if isinstance(around, ast.Call) and node in around.args else None
        return isinstance(called, ast.Attribute) and called.attr == "enter_context"

    @staticmethod
    def _shut(function: ast.FunctionDef, around: ast.AST | None) -> bool:
        """Whether the function keeps a pool under a name of its own, and ends it."""
        target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
        if not isinstance(target, ast.Name):
            return False
        nodes = list(ast.walk(function))
        if any(isinstance(n, (ast.Global, ast.Nonlocal)) and target.id in n.names for n in nodes):
            return False
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("shutdown", "join")
            and short_name(n.func.value) == target.id and _for_ever(n)
            for n in nodes
        )  # fmt: skip

    def _beside(self, function: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
        """The function, those that call it, and those that these call."""
        yield function
        for caller in self.source.functions.values():
            called = {_called(n) for n in ast.walk(caller) if isinstance(n, ast.Call)}
            if function.name in called:
                yield caller
                yield from (self.source.functions[c] for c in called if c in self.source.functions)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _for_ever(call: ast.Call) -> bool:
    values = [*call.args, *(k.value for k in call.keywords if k.arg == "wait")]
    return all(constant(v) is True for v in values)


def _joins(function: ast.FunctionDef) -> bool:
    """Whether it waits for a thread: `t.join()`, or with a time that is no mere look."""
    for n in ast.walk(function):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "join":
            times = [constant(v) for v in (*n.args, *(k.value for k in n.keywords))]
            if all(isinstance(t, int | float) and t >= SHORTEST for t in times):
                return True
    return False
