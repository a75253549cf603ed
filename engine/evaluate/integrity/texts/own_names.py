"""What a text does with globals() and vars(): reads its own names, reaches for the harness, or what cannot be told.

    Looked(source, innocent).judge(call)     # None: its own names; else (code, evidence) of a finding

A table of one's own names is read in many honest ways: by a literal key, in a loop, as a copy. It is a trick where it
names what leads out of the text (`__builtins__`), or where the table is that of a module and is written. All else is
`inconclusive`: a key made at run time may be any name, and a parameter any object.
"""

from __future__ import annotations

import ast

from engine.evaluate.integrity.texts.innocent import Innocent
from engine.evaluate.integrity.texts.python_source import PythonSource, constant

WAYS_OUT = frozenset({"__builtins__", "__loader__", "__spec__"})
_LISTS = {"items", "keys", "values"}
_BY_KEY = {"get", "pop", "setdefault", "__getitem__", "__contains__"}
_COPIES = {"dict", "list", "set", "sorted", "tuple", "frozenset", "len", "iter", "str", "repr", "print"}
_SPACES = {"types.SimpleNamespace", "argparse.Namespace"}
_FINE, _OUT, _UNKNOWN, _WRITES = "fine", "out", "unknown", "writes"
_DEPTH = 4  # names that may stand for a table, one after the other


class Looked:
    """The judgements of one text."""

    def __init__(self, source: PythonSource, innocent: Innocent):
        self.source, self.innocent = source, innocent

    def judge(self, call: ast.Call) -> tuple[str, str] | None:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name == "vars" and call.args and self._own_object(call.args[0]):
            return None
        uses = self._uses(call, _DEPTH)
        if name == "vars" and call.args and self.source.dotted(call.args[0]):
            if uses in (_OUT, _WRITES):
                return "harness_access", f"vars() of {ast.unparse(call.args[0])[:60]}, and not to read it"
            return "inconclusive", f"vars() of {ast.unparse(call.args[0])[:60]}, which is not of this text"
        if uses == _OUT:
            return "harness_access", f"{name}()"
        if name == "vars" and call.args:
            return "inconclusive", f"vars({ast.unparse(call.args[0])[:60]}), which may be any object"
        if uses == _UNKNOWN or (uses == _WRITES and self.source.within(call)):
            around = self.source.parent.get(call, call)
            return "inconclusive", f"names that are made at run time: {ast.unparse(around)[:80]}"
        return None

    # ---- what is done with a table ----

    def _uses(self, table: ast.AST, depth: int) -> str:
        """What is done with a table of names: it is read as any text may, leads out, is written, or cannot be told."""
        around = self.source.parent.get(table)
        if isinstance(around, ast.Subscript) and around.value is table:
            return self._keyed(around.slice, isinstance(around.ctx, ast.Load))
        if isinstance(around, ast.Attribute):
            return self._method(around, depth)
        if isinstance(around, (ast.For, ast.comprehension)) and around.iter is table:
            return _FINE
        if isinstance(around, ast.Compare) and all(isinstance(op, (ast.In, ast.NotIn)) for op in around.ops):
            return _FINE
        if isinstance(around, ast.Expr) or (isinstance(around, ast.Dict) and self._unpacked(around, table)):
            return _FINE
        if isinstance(around, ast.keyword) and around.arg is None:  # f(**globals())
            call = self.source.parent.get(around)
            return self._copy(call, depth) if isinstance(call, ast.Call) else _UNKNOWN
        if isinstance(around, ast.Call) and table in around.args:
            return self._copy(around, depth)
        if isinstance(around, (ast.Assign, ast.NamedExpr, ast.AnnAssign)) and around.value is table:
            return self._named(around, table, depth)
        return _UNKNOWN

    def _method(self, method: ast.Attribute, depth: int) -> str:
        call = self.source.parent.get(method)
        if not isinstance(call, ast.Call) or call.func is not method:
            return _UNKNOWN
        if method.attr in _LISTS:
            return _FINE
        if method.attr == "copy":
            return self._copied(self._uses(call, depth - 1)) if depth else _UNKNOWN
        if method.attr == "update" and not call.args and all(k.arg for k in call.keywords):
            return _OUT if any(k.arg in WAYS_OUT for k in call.keywords) else _WRITES
        if method.attr in _BY_KEY and call.args:
            return self._keyed(call.args[0], method.attr not in ("pop", "setdefault"))
        return _WRITES if method.attr in ("update", "clear", "__setitem__", "__delitem__") else _UNKNOWN

    def _copy(self, call: ast.Call, depth: int) -> str:
        """What is done with the copy that a function makes of a table."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("format", "format_map"):
            return _FINE
        if name not in _COPIES or name in self.source.functions:
            return _UNKNOWN
        if name != "dict":
            return _FINE
        return self._copied(self._uses(call, depth - 1)) if depth else _UNKNOWN

    @staticmethod
    def _copied(uses: str) -> str:
        return _FINE if uses == _WRITES else uses

    def _named(self, assign: ast.AST, table: ast.AST, depth: int) -> str:
        """The worst use of a name that is nothing but this table."""
        targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
        if not depth or len(targets) != 1 or not isinstance(targets[0], ast.Name):
            return _UNKNOWN
        values = self.innocent.values(targets[0].id)
        if len(values) != 1 or values[0] is not table:
            return _UNKNOWN
        uses = {
            self._uses(n, depth - 1)
            for n in self.innocent.mentions(targets[0].id) if isinstance(n.ctx, ast.Load)
        }  # fmt: skip
        return next((worst for worst in (_OUT, _UNKNOWN, _WRITES) if worst in uses), _FINE)

    @staticmethod
    def _unpacked(around: ast.Dict, table: ast.AST) -> bool:
        return any(key is None and value is table for key, value in zip(around.keys, around.values, strict=True))

    # ---- keys ----

    def _keyed(self, key: ast.AST, read: bool) -> str:
        beginnings = self._beginnings(key)
        if any(text in WAYS_OUT if whole else text.startswith("__") for text, whole in beginnings):
            return _OUT
        if not beginnings or any(not whole and text in ("", "_") for text, whole in beginnings):
            return _UNKNOWN
        return _FINE if read else _WRITES

    def _beginnings(self, key: ast.AST) -> list[tuple[str, bool]]:
        """(how a key may begin, whether that is all of it); a beginning of "" may be anything."""
        if isinstance(key, ast.Constant):
            return [(str(key.value), True)]
        if isinstance(key, ast.IfExp):
            return self._beginnings(key.body) + self._beginnings(key.orelse)
        if isinstance(key, ast.BinOp) and isinstance(key.op, (ast.Add, ast.Mod)):
            return [(text.partition("%")[0], False) for text, _ in self._beginnings(key.left)]
        if isinstance(key, ast.JoinedStr):
            return [(str(constant(key.values[0]) or "") if key.values else "", False)]
        if isinstance(key, ast.Name):
            words = self.innocent.words(key)
            return [(word, True) for word in words] if words else [("", False)]
        return [("", False)]

    # ---- objects of the text ----

    def _own_object(self, node: ast.AST) -> bool:
        """Whether vars() of this shows nothing but what the text made: a class of the text, an instance of one, a
        plain name space, or the first parameter of a method."""
        if self.innocent.own_object(node) or self._own_class(node):
            return True
        if isinstance(node, ast.Call):
            return self.source.dotted(node.func) in _SPACES or self._own_class(node.func)
        if not isinstance(node, ast.Name) or node.id in self.source.names:
            return False
        values = self.innocent.values(node.id)
        return bool(values) and all(isinstance(v, ast.Call) and self._own_object(v) for v in values)

    def _own_class(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Name) or node.id in self.source.names or self.innocent.values(node.id):
            return False
        classes = [c for c in self.source.tree.body if isinstance(c, ast.ClassDef) and c.name == node.id]
        return len(classes) == 1 and not classes[0].keywords and self._plain_class(classes[0])

    def _plain_class(self, c: ast.ClassDef) -> bool:
        """Whether calling a class gives an object of it, since nothing of the text makes it another one."""
        decorators = [self.source.dotted(d.func if isinstance(d, ast.Call) else d) for d in c.decorator_list]
        methods = {n.name for n in c.body if isinstance(n, ast.FunctionDef)} & {
            "__new__",
            "__getattribute__",
            "__class__",
        }
        stored = {n.id for n in ast.walk(c) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bases = all(self.source.dotted(b) or self._own_class(b) for b in c.bases)
        return bases and not methods and set(decorators) <= {"dataclasses.dataclass"} and "__dict__" not in stored
