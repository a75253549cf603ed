"""No module makes an exception once and raises it many times: it would keep the frames that it passed each time, and
all that they hold, as long as the process lives."""

import ast
import builtins
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("dsl", "sol", "engine", "playground", "ucutlass_web")


def name(node: ast.AST | None) -> str:
    """The last word of a name, a dotted name or a call; "" for anything else."""
    if isinstance(node, ast.Call):
        return name(node.func)
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def exceptions(trees: list[ast.Module]) -> set[str]:
    """The names of all exception classes: Python's, and those of the trees."""
    known = {n for n, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := {c.name for c in classes if c.name not in known and any(name(base) in known for base in c.bases)}:
        known |= more
    return known


def kept_instances(trees: dict[Path, ast.Module]) -> list[str]:
    """FILE:LINE of each exception that a module keeps."""
    known = exceptions(list(trees.values()))
    return [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and name(node.value) in known
    ]


def test_no_module_keeps_an_exception():
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    trees = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    assert len(trees) > 500 and "Refused" in exceptions(list(trees.values()))
    assert kept_instances(trees) == []


def test_an_exception_of_a_module_is_named():
    text = "class Wrong(ValueError): ...\nclass Worse(Wrong): ...\nGONE = Worse('x')\nNONE = dict()\n"
    assert kept_instances({Path("a.py"): ast.parse(text)}) == ["a.py:3"]
