"""A Python text as a syntax tree with its imported names, for the rules about texts."""

from __future__ import annotations

import ast


class PythonSource:
    """`names`: local name -> dotted name of the import; `functions`: every function of the text by its name; `parent`:
    the node around each node."""

    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.names: dict[str, str] = {}
        self.functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self.parent = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}
        self._imports()

    def _imports(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for a in node.names:
                    self.names[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
            elif isinstance(node, ast.ImportFrom) and node.module:
                for a in node.names:
                    self.names[a.asname or a.name] = f"{node.module}.{a.name}"
            elif isinstance(node, ast.Assign) and (module := imported_by_call(node.value)):
                for t in node.targets:
                    if isinstance(t, ast.Name):
                        self.names.setdefault(t.id, module)

    def dotted(self, node: ast.AST | None) -> str:
        """The dotted name of an expression by its import ("" if its root is not imported)."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if module := imported_by_call(node):
            return ".".join([module, *reversed(parts)])
        if isinstance(node, ast.Name) and node.id in self.names:
            return ".".join([self.names[node.id], *reversed(parts)])
        if isinstance(node, ast.Name) and not parts and node.id in ("exec", "eval", "compile", "__import__", "open"):
            return f"builtins.{node.id}"
        return ""

    def within(self, node: ast.AST) -> list[str]:
        """Names of the functions and classes around a node, innermost first."""
        around = []
        while node in self.parent:
            node = self.parent[node]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                around.append(node.name)
        return around


def imported_by_call(node: ast.AST | None) -> str:
    """The module that `__import__("math")` or `importlib.import_module("math")` gives; "" for anything else."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(name := constant(node.args[0]), str):
        return ""
    called = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
    if called in ("__import__", "builtins.__import__"):  # of `a.b` it gives `a`, unless names are asked for
        return name if len(node.args) > 3 or node.keywords else name.partition(".")[0]
    return name if called in ("importlib.import_module", "import_module") and len(node.args) == 1 else ""


def constant(node: ast.AST) -> object:
    """The value of a constant, else None."""
    return node.value if isinstance(node, ast.Constant) else None
